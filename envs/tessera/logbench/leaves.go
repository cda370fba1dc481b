package main

import (
	"encoding/binary"
	"math/rand/v2"
)

// leafHeader is how many bytes tell a leaf from all others: the run and its number in the run.
const leafHeader = 16

// leafMaker makes the leaves of one run, each again from its number alone: none has to be kept for the proofs.
type leafMaker struct {
	run  uint64 // another one for each run, so that no run repeats leaves of an earlier one in the same log
	size int
}

// appendLeaf appends leaf n to dst. Its filler does not compress.
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
