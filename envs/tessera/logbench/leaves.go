package main

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// leafHeader is how many bytes tell a leaf from all others: the run and its number in the run, in hexadecimal.
const leafHeader = 32

// leafMaker makes the leaves of one run, each again from its number alone: none has to be kept for the proofs.
type leafMaker struct {
	run  uint64 // another one for each run, so that no run repeats leaves of an earlier one in the same log
	size int
}

// appendLeaf appends leaf n to dst. Its filler does not compress.
func (m leafMaker) appendLeaf(dst []byte, n int) []byte {
	var header [leafHeader / 2]byte
	binary.BigEndian.PutUint64(header[:8], m.run)
	binary.BigEndian.PutUint64(header[8:], uint64(n))
	end := len(dst) + m.size
	dst = hex.AppendEncode(dst, header[:])
	var filler rand.PCG
	filler.Seed(m.run, uint64(n))
	for len(dst) < end {
		dst = binary.LittleEndian.AppendUint64(dst, filler.Uint64())
	}
	return dst[:end]
}
