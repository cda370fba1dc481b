package main

import (
	"encoding/binary"
	"math/rand/v2"
)

// leafHeader is the number of bytes that identify a leaf: the run, and the leaf's number in it.
const leafHeader = 16

// leafMaker generates the leaves of one run from their numbers, so that proofs can generate them again.
type leafMaker struct {
	run  uint64 // different for each run, so that no run repeats leaves of an earlier one in the same log
	size int
}

// appendLeaf appends leaf n to dst. Its filler is incompressible.
func (m leafMaker) appendLeaf(dst []byte, n int) []byte {
	end := len(dst) + m.size
	dst = binary.BigEndian.AppendUint64(dst, m.run)
	dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	var filler rand.PCG
	filler.Seed(m.run, uint64(n))
	for len(dst) < end {
		dst = binary.LittleEndian.AppendUint64(dst, filler.Uint64())
	}
	return dst[:end]
}
