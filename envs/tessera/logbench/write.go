package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// write offers leaves at a constant rate, whatever the log does (an open loop).
func write(arguments []string) error {
	flags := flag.NewFlagSet("write", flag.ContinueOnError)
	configPath := flags.String("config", "", "JSON file with the configuration")
	out := flags.String("out", "", "file to write the result to, as JSON")
	if err := parseFlags(flags, arguments, "config", "out"); err != nil {
		return err
	}
	config := &writeConfig{logConfig: defaults(), MaxInFlight: 4096, LeafBytes: 100}
	if err := read(*configPath, config); err != nil {
		return err
	}
	// The heap is mainly one large list without pointers, so more frequent collections would only take CPU time.
	debug.SetGCPercent(400)
	result, err := runWrite(context.Background(), config)
	if err != nil {
		return err
	}
	return result.save(*out)
}

// runWrite reads the log, offers leaves, waits until they are integrated, and verifies proofs of a sample.
//
// It fails if the log cannot be read at the start, or violates its guarantees: a checkpoint does not verify, or the tree
// shrinks or changes its past. All other failures are counted.
func runWrite(ctx context.Context, config *writeConfig) (*result, error) {
	if err := checkFileLimit(config.MaxInFlight); err != nil {
		return nil, err
	}
	headers, err := config.expandedHeaders()
	if err != nil {
		return nil, err
	}
	fronts, err := newFrontEnds(config, headers)
	if err != nil {
		return nil, err
	}
	follower, err := newFollower(ctx, &config.logConfig, headers)
	if err != nil {
		return nil, err
	}
	writer := newWriter(config, fronts)
	var usage windowUsage
	err = follower.during(ctx, func(ctx context.Context) {
		usage = writer.offer(ctx)
		waitIntegrated(ctx, follower, writer.treeSize(), seconds(config.DrainS))
	})
	if err != nil {
		return nil, err
	}
	proofs, err := proveWritten(ctx, config, follower, writer)
	if err != nil {
		return nil, err
	}
	result := newResult("write", &config.logConfig, follower, writer.start, proofs)
	result.addWritten(config, writer, usage, follower.seen)
	return result, nil
}

// writer offers the leaves of one run.
type writer struct {
	config *writeConfig
	leaves leafMaker
	fronts []*frontEnd
	texts  answerTexts

	start    time.Time
	attempts []attempt
	queue    chan int // numbers of leaves that are due
	inFlight atomic.Int64
	working  sync.WaitGroup
}

func newWriter(config *writeConfig, fronts []*frontEnd) *writer {
	return &writer{
		config:   config,
		leaves:   leafMaker{run: rand.Uint64(), size: config.LeafBytes},
		fronts:   fronts,
		attempts: make([]attempt, config.planned()),
		// As large as the in-flight limit, so that pace never waits.
		queue: make(chan int, config.MaxInFlight),
	}
}

// offer sends each leaf when it is due. It returns the CPU time of the window after all answers.
func (w *writer) offer(ctx context.Context) windowUsage {
	w.start = time.Now()
	usage := watchUsage(w.config.window())
	w.pace(ctx)
	close(w.queue)
	w.working.Wait()
	if ctx.Err() != nil {
		return windowUsage{} // canceled: there is no result
	}
	return usage()
}

// pace hands out leaves when they are due. Leaves that are closer than the timer's resolution (about 1 ms) come in small
// bursts, but their latency still starts when they were due.
func (w *writer) pace(ctx context.Context) {
	workers := int64(0)
	for n := range w.attempts {
		if wait := w.config.intended(n) - time.Since(w.start); wait > 0 {
			time.Sleep(wait)
			if ctx.Err() != nil {
				return
			}
		}
		under := w.inFlight.Add(1)
		if under > int64(w.config.MaxInFlight) {
			w.inFlight.Add(-1)
			w.attempts[n].outcome = dropped
			continue
		}
		// As many workers as the highest number of leaves in flight: most runs need few.
		if workers < under {
			workers++
			w.working.Add(1)
			go w.work()
		}
		w.queue <- n
	}
}

func (w *writer) work() {
	defer w.working.Done()
	sender := newSender(w.fronts, seconds(w.config.TimeoutS))
	for n := range w.queue {
		w.send(sender, n)
		w.inFlight.Add(-1)
	}
}

func (w *writer) send(sender *sender, n int) {
	a := &w.attempts[n]
	a.leaf = w.leafFor(n)
	sender.body = w.leaves.appendLeaf(sender.body[:0], a.leaf)
	a.begun = time.Since(w.start)
	index, outcome, text := sender.add(n)
	a.answered = time.Since(w.start)
	if outcome == accepted {
		if a.leaf != n && w.attempts[a.leaf].index() == index {
			outcome = duplicate
		}
		a.outcome = outcome
		a.given.Store(index + 1)
		return
	}
	a.outcome = outcome
	w.texts.count(outcome, text)
}

// leafFor returns n or, with the probability of a duplicate, one of the leaves that the log has accepted so far.
func (w *writer) leafFor(n int) int {
	if w.config.DuplicateShare == 0 || n == 0 || rand.Float64() >= w.config.DuplicateShare {
		return n
	}
	// Limited draws: under constant pushback, hardly any leaf was accepted.
	for range 32 {
		earlier := rand.IntN(n)
		// Its fields were written before its index was.
		if a := &w.attempts[earlier]; a.given.Load() != 0 && a.leaf == earlier {
			return earlier
		}
	}
	return n
}

// treeSize returns the size of a tree with all accepted leaves.
func (w *writer) treeSize() uint64 {
	size := uint64(0)
	for n := range w.attempts {
		size = max(size, w.attempts[n].given.Load())
	}
	return size
}

// waitIntegrated waits until a verified checkpoint has `size` leaves, or the time is over.
func waitIntegrated(ctx context.Context, follower *follower, size uint64, within time.Duration) {
	deadline := time.Now().Add(within)
	for follower.size() < size && time.Now().Before(deadline) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// answerTexts counts messages for leaves that the log did not accept.
type answerTexts struct {
	mu    sync.Mutex
	seen  map[answerText]int
	other int
}

type answerText struct {
	kind outcome
	text string
}

const (
	maxTexts    = 20
	maxTextSize = 500 // a path may precede the cause
)

func (t *answerTexts) count(kind outcome, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = make(map[answerText]int)
	}
	key := answerText{kind, text[:min(len(text), maxTextSize)]}
	if _, known := t.seen[key]; !known && len(t.seen) == maxTexts {
		t.other++
		return
	}
	t.seen[key]++
}
