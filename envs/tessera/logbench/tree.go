package main

import (
	"bytes"
	"sync"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
)

// tree is an in-memory Merkle tree that serves its tiles. All methods are safe for concurrent use.
type tree struct {
	mu     sync.RWMutex
	size   uint64
	growth *compact.Range
	// levels[l] has the hashes of all tiles of level l in order: the roots of full subtrees of 256^l leaves.
	levels [][][]byte
}

func newTree() *tree {
	factory := &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	return &tree{growth: factory.NewEmptyRange(0)}
}

// grow appends leaf hashes, and returns the new size and root.
func (t *tree) grow(leaves [][]byte) (size uint64, root []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, leaf := range leaves {
		if err := t.growth.Append(leaf, t.keep); err != nil {
			return 0, nil, err
		}
	}
	t.size += uint64(len(leaves))
	if t.size == 0 {
		return 0, rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	root, err = t.growth.GetRootHash(nil)
	return t.size, root, err
}

// keep is called with each node when it is complete, from left to right within a level.
func (t *tree) keep(id compact.NodeID, hash []byte) {
	if id.Level%layout.TileHeight != 0 {
		return
	}
	level := int(id.Level / layout.TileHeight)
	if level == len(t.levels) {
		t.levels = append(t.levels, nil)
	}
	t.levels[level] = append(t.levels[level], hash)
}

// tile returns the content of a tile, or its first `partial` hashes if that is not 0; false if it does not exist.
func (t *tree) tile(level, index uint64, partial uint8) ([]byte, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	width := uint64(partial)
	if width == 0 {
		width = layout.TileWidth
	}
	first := index * layout.TileWidth
	if level >= uint64(len(t.levels)) || first+width > uint64(len(t.levels[level])) {
		return nil, false
	}
	return bytes.Join(t.levels[level][first:first+width], nil), true
}
