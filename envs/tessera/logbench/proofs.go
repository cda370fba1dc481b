package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
)

const (
	// maxConsistency is the limit of consistency proofs, spread evenly over the checkpoints that were seen.
	maxConsistency = 200
	// maxLostRows is the limit of listed lost leaves; all are counted.
	maxLostRows = 20
)

// proofResult has the results of the proofs.
type proofResult struct {
	// For a random sample of all accepted leaves.
	Asked  int `json:"asked"`
	Proved int `json:"proved"`
	// Proofs that could not be read, for example because the server is down: their result is unknown.
	Unread    int    `json:"unread"`
	UnreadWhy string `json:"unread_why,omitempty"`
	// Accepted leaves that are missing. They include leaves outside the sample: those that no checkpoint covered, and
	// those that share an index, are known without a proof.
	LostCount int        `json:"lost_count"`
	Lost      []lostLeaf `json:"lost"`
	// NotIntegrated counts leaves that no verified checkpoint covered by the end of the wait. They count as lost if the
	// log could still be read then.
	NotIntegrated int `json:"not_integrated"`
	// Each checkpoint that was seen must be a prefix of the last one.
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

// claim is the claim that a leaf is at its index. `hash` returns the hash of the leaf.
type claim struct {
	index uint64
	hash  func(ctx context.Context) ([]byte, error)
}

// proveWritten verifies proofs of a sample of the accepted leaves.
func proveWritten(ctx context.Context, config *writeConfig, follower *follower, writer *writer) (*proofResult, error) {
	result := &proofResult{Lost: []lostLeaf{}}
	covered := result.lookWithoutProofs(config, follower, writer)
	rand.Shuffle(len(covered), func(i, j int) { covered[i], covered[j] = covered[j], covered[i] })
	var claims []claim
	for _, n := range covered[:min(len(covered), config.ProofSample)] {
		a := &writer.attempts[n]
		claims = append(claims, claim{a.index(), func(context.Context) ([]byte, error) {
			return rfc6962.DefaultHasher.HashLeaf(writer.leaves.appendLeaf(nil, a.leaf)), nil
		}})
	}
	return result, result.prove(ctx, &resources{logReader: follower.reader}, follower.seen, claims)
}

// proveWatched verifies proofs of a sample of the leaves that the log serves, among those that arrived during the watch.
// The leaves that the writer sent are unknown here.
func proveWatched(ctx context.Context, config *logConfig, follower *follower) (*proofResult, error) {
	result := &proofResult{Lost: []lostLeaf{}}
	log := &resources{logReader: follower.reader}
	first, last := follower.seen[0].size, follower.last().size
	indices := make(map[uint64]bool)
	for uint64(len(indices)) < min(uint64(config.ProofSample), last-first) {
		indices[first+rand.Uint64N(last-first)] = true
	}
	var claims []claim
	for _, index := range slices.Sorted(maps.Keys(indices)) {
		claims = append(claims, claim{index, func(ctx context.Context) ([]byte, error) {
			bundle, err := client.GetEntryBundle(ctx, log.ReadEntryBundle, index/layout.EntryBundleWidth, last)
			if err != nil {
				return nil, err
			}
			within := index % layout.EntryBundleWidth
			if within >= uint64(len(bundle.Entries)) {
				return nil, fmt.Errorf("its bundle has only %d entries", len(bundle.Entries))
			}
			return rfc6962.DefaultHasher.HashLeaf(bundle.Entries[within]), nil
		}})
	}
	return result, result.prove(ctx, log, follower.seen, claims)
}

// lookWithoutProofs finds leaves that cannot be in the tree, and returns the numbers of the other leaves.
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
		if _, ok := writer.integrated(follower.seen, a); ok {
			covered = append(covered, n)
			continue
		}
		r.NotIntegrated++
		if a.index() < size {
			r.lose(a.index(), "a verified checkpoint covered its index before the leaf was sent, so another leaf is there")
		} else if readable {
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

// prove verifies the claims, and that the checkpoints are consistent. It returns an error if they are not.
func (r *proofResult) prove(ctx context.Context, log *resources, seen []sighting, claims []claim) error {
	last := seen[len(seen)-1]
	builder, err := client.NewProofBuilder(ctx, last.size, log.ReadTile)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		r.proveIncluded(ctx, builder, log, last, claim)
	}
	return r.proveConsistent(ctx, builder, seen)
}

func (r *proofResult) proveIncluded(ctx context.Context, builder *client.ProofBuilder, log *resources, last sighting, claim claim) {
	r.Asked++
	log.failure = nil
	hash, err := claim.hash(ctx)
	var nodes [][]byte
	if err == nil {
		nodes, err = builder.InclusionProof(ctx, claim.index)
	}
	if err != nil && log.failure != nil && !errors.Is(log.failure, os.ErrNotExist) {
		r.Unread++
		r.UnreadWhy = log.failure.Error()
		return
	}
	if err != nil {
		r.lose(claim.index, "the log cannot prove its inclusion, although the checkpoint of %d leaves covers it: %v", last.size, err)
		return
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, claim.index, last.size, hash, nodes, last.hash); err != nil {
		r.lose(claim.index, "its proof does not lead to the root of the checkpoint of %d leaves: another leaf has its index", last.size)
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
			continue // the empty tree is a prefix of every tree
		}
		r.ConsistencyAsked++
		nodes, err := builder.ConsistencyProof(ctx, earlier.size, last.size)
		if err != nil {
			continue // asked, but not proved
		}
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, earlier.size, last.size, nodes, earlier.hash, last.hash); err != nil {
			return fmt.Errorf("the log changed its past: its checkpoint of %d leaves is not a prefix of that of %d: %w", earlier.size, last.size, err)
		}
		r.ConsistencyProved++
	}
	return nil
}

// resources reads the resources of a log, and remembers why a read failed, because a program cannot tell that from the
// errors of Tessera's client. A missing tile that the checkpoint covers means a lost leaf; an unreachable log does not.
type resources struct {
	logReader
	failure error
}

func (r *resources) ReadTile(ctx context.Context, level, index uint64, partial uint8) ([]byte, error) {
	return r.remember(r.logReader.ReadTile(ctx, level, index, partial))
}

func (r *resources) ReadEntryBundle(ctx context.Context, index uint64, partial uint8) ([]byte, error) {
	return r.remember(r.logReader.ReadEntryBundle(ctx, index, partial))
}

func (r *resources) remember(content []byte, err error) ([]byte, error) {
	if err != nil {
		r.failure = err
	}
	return content, err
}
