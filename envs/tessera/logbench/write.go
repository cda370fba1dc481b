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

// write offers leaves at a steady rate, whatever the log does: the load is open.
func write(arguments []string) error {
	flags := flag.NewFlagSet("write", flag.ContinueOnError)
	configPath := flags.String("config", "", "file of JSON that says what to do")
	out := flags.String("out", "", "file to write the result to, as JSON")
	if err := parseFlags(flags, arguments, "config", "out"); err != nil {
		return err
	}
	config, err := readWriteConfig(*configPath)
	if err != nil {
		return err
	}
	// All that is kept is one big list without pointers: collecting more often would only take processor time.
	debug.SetGCPercent(400)
	result, err := runWrite(context.Background(), config)
	if err != nil {
		return err
	}
	return result.save(*out)
}

// runWrite looks at the log, offers leaves, waits until they are integrated, and has a sample of them proved.
//
// It fails when the log cannot be read in the beginning, and when it shows anything that no log may show: a checkpoint
// that does not verify, a tree that shrinks or whose past has changed. Whatever else goes wrong is counted.
func runWrite(ctx context.Context, config *writeConfig) (*result, error) {
	if err := raiseFileLimit(config.MaxInFlight); err != nil {
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
	result.addWritten(config, writer, usage, newSightings(follower.seen, writer.start))
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
		// As large as may be in flight, so that whoever hands out the leaves never waits.
		queue: make(chan int, config.MaxInFlight),
	}
}

// offer has each leaf begun when it is due, and returns when all are answered, with the processor time of the window.
func (w *writer) offer(ctx context.Context) windowUsage {
	w.start = time.Now()
	usage := watchUsage(w.config.window())
	w.pace(ctx)
	close(w.queue)
	w.working.Wait()
	if ctx.Err() != nil {
		return windowUsage{} // broken off: there will be no result
	}
	return usage()
}

// pace hands out the leaves that are due. Leaves that are less than a timer's grain apart (about 1 ms) come in small
// bursts; their latency counts from when they were due, nevertheless.
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
		// As many workers as there were ever leaves in flight: most runs need few.
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

// leafFor is n, or with the wanted probability one of all leaves that the log has accepted up to now.
func (w *writer) leafFor(n int) int {
	if w.config.DuplicateShare == 0 || n == 0 || rand.Float64() >= w.config.DuplicateShare {
		return n
	}
	// A few draws: where pushback is the rule, hardly any leaf was accepted.
	for range 32 {
		earlier := rand.IntN(n)
		// Its fields were written before its index was.
		if a := &w.attempts[earlier]; a.given.Load() != 0 && a.leaf == earlier {
			return earlier
		}
	}
	return n
}

// treeSize is the size that the tree must have with all leaves that the log said it has.
func (w *writer) treeSize() uint64 {
	size := uint64(0)
	for n := range w.attempts {
		size = max(size, w.attempts[n].given.Load())
	}
	return size
}

// waitIntegrated waits until a verified checkpoint is of `size` leaves, or until the time is over.
func waitIntegrated(ctx context.Context, follower *follower, size uint64, within time.Duration) {
	deadline := time.Now().Add(within)
	for follower.size() < size && time.Now().Before(deadline) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// answerTexts counts what the log said instead of accepting a leaf.
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
	maxTextSize = 500 // a path may stand before the cause
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
