package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/client"
)

const (
	// maxConsistency proofs are asked for at most; evenly over the checkpoints that were seen.
	maxConsistency = 200
	// maxLostRows of the lost leaves are listed; all are counted.
	maxLostRows = 20
)

// proofResult is what the log could prove about what it had said.
type proofResult struct {
	// Of a random sample of all leaves the log said it has.
	Asked  int `json:"asked"`
	Proved int `json:"proved"`
	// Could not be asked, as when the server is gone: nothing is known about these.
	Unread    int    `json:"unread"`
	UnreadWhy string `json:"unread_why,omitempty"`
	// Leaves that the log said it has, and that are not there. Not only of the sample: those that no checkpoint ever
	// covered are known without a proof, and so are those that share an index.
	LostCount int        `json:"lost_count"`
	Lost      []lostLeaf `json:"lost"`
	// NotIntegrated counts leaves that no verified checkpoint covered up to the end of the wait. They are lost when
	// the log could still be read then.
	NotIntegrated int `json:"not_integrated"`
	// Each checkpoint that was seen must be a beginning of the last one.
	ConsistencyAsked  int `json:"consistency_asked"`
	ConsistencyProved int `json:"consistency_proved"`
}

type lostLeaf struct {
	Index uint64 `json:"index"`
	Why   string `json:"why"`
}

func (r *proofResult) lose(index uint64, why string, arguments ...any) {
	r.LostCount++
	if len(r.Lost) < maxLostRows {
		r.Lost = append(r.Lost, lostLeaf{index, fmt.Sprintf(why, arguments...)})
	}
}

// prove has the log prove a sample of its leaves, and that its checkpoints are of one history. An error means that
// they are not.
func prove(ctx context.Context, config *writeConfig, reader logReader, follower *follower, writer *writer) (*proofResult, error) {
	result := &proofResult{Lost: []lostLeaf{}}
	last := follower.seen[len(follower.seen)-1]
	covered := result.lookWithoutProofs(config, follower, writer)
	tiles := &tileReader{reader: reader}
	builder, err := client.NewProofBuilder(ctx, last.size, tiles.read)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(covered), func(i, j int) { covered[i], covered[j] = covered[j], covered[i] })
	for _, n := range covered[:min(len(covered), config.ProofSample)] {
		a := &writer.attempts[n]
		leaf := rfc6962.DefaultHasher.HashLeaf(writer.leaves.appendLeaf(nil, a.leaf))
		result.proveIncluded(ctx, builder, tiles, last, a.index(), leaf)
	}
	return result, result.proveConsistent(ctx, builder, follower.seen)
}

// lookWithoutProofs finds leaves that cannot be in the tree, and returns the numbers of those that may be.
func (r *proofResult) lookWithoutProofs(config *writeConfig, follower *follower, writer *writer) []int {
	size, readable := follower.size(), follower.lastError == nil
	var covered []int
	var given []uint64
	for n := range writer.attempts {
		a := &writer.attempts[n]
		if !a.has() {
			continue
		}
		if a.outcome == accepted {
			given = append(given, a.index())
		}
		if a.index() < size {
			covered = append(covered, n)
			continue
		}
		r.NotIntegrated++
		if readable {
			r.lose(a.index(), "no verified checkpoint covered it within %g s after the load; the last one has %d leaves", config.DrainS, size)
		}
	}
	slices.Sort(given)
	for i := 1; i < len(given); i++ {
		if given[i] == given[i-1] {
			r.lose(given[i], "the log gave this index to two different leaves")
		}
	}
	return covered
}

func (r *proofResult) proveIncluded(ctx context.Context, builder *client.ProofBuilder, tiles *tileReader, last sighting, index uint64, leaf []byte) {
	r.Asked++
	tiles.err = nil
	nodes, err := builder.InclusionProof(ctx, index)
	if err != nil && tiles.err != nil && !errors.Is(tiles.err, os.ErrNotExist) {
		r.Unread++
		r.UnreadWhy = err.Error()
		return
	}
	if err == nil {
		err = proof.VerifyInclusion(rfc6962.DefaultHasher, index, last.size, leaf, nodes, last.hash)
	}
	if err != nil {
		r.lose(index, "it is not in the tree of the checkpoint with %d leaves: %v", last.size, err)
		return
	}
	r.Proved++
}

func (r *proofResult) proveConsistent(ctx context.Context, builder *client.ProofBuilder, seen []sighting) error {
	last := seen[len(seen)-1]
	step := max(1, (len(seen)+maxConsistency-1)/maxConsistency)
	for i := 0; i < len(seen)-1; i += step {
		earlier := seen[i]
		if earlier.size == 0 {
			continue // the empty tree is a beginning of every tree
		}
		r.ConsistencyAsked++
		nodes, err := builder.ConsistencyProof(ctx, earlier.size, last.size)
		if err != nil {
			continue
		}
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, earlier.size, last.size, nodes, earlier.hash, last.hash); err != nil {
			return fmt.Errorf("the log changed its past: its checkpoint of %d leaves is no beginning of that of %d: %w", earlier.size, last.size, err)
		}
		r.ConsistencyProved++
	}
	return nil
}

// tileReader remembers why a tile could not be read: the builder's own errors do not say it in a way that a program can
// tell. A tile that the log does not have, though its checkpoint covers it, is a leaf lost; a log that is away is not.
type tileReader struct {
	reader logReader
	err    error
}

func (t *tileReader) read(ctx context.Context, level, index uint64, partial uint8) ([]byte, error) {
	content, err := t.reader.ReadTile(ctx, level, index, partial)
	if err != nil {
		t.err = err
	}
	return content, err
}
