package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"
)

// logReader reads the static resources of a log. Tessera's clients implement it.
type logReader interface {
	ReadCheckpoint(ctx context.Context) ([]byte, error)
	ReadTile(ctx context.Context, level, index uint64, partial uint8) ([]byte, error)
	ReadEntryBundle(ctx context.Context, index uint64, partial uint8) ([]byte, error)
}

func newReader(config *logConfig, headers map[string]string) (logReader, error) {
	root, err := url.Parse(config.ReadURL)
	if err != nil {
		return nil, err
	}
	if root.Scheme == "file" {
		return client.FileFetcher{Root: root.Path}, nil
	}
	// Separate connections, so that a poll does not wait for leaves.
	transport := &readTransport{base: http.DefaultTransport.(*http.Transport).Clone(), headers: headers}
	return client.NewHTTPFetcher(root, &http.Client{Transport: transport, Timeout: seconds(config.TimeoutS)})
}

// readTransport adds headers. It also reads error answers to their end, because the fetcher leaves them open, which
// would cost a connection each.
type readTransport struct {
	base    http.RoundTripper
	headers map[string]string
}

func (t *readTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if len(t.headers) > 0 {
		request = request.Clone(request.Context())
		for name, value := range t.headers {
			request.Header.Set(name, value)
		}
	}
	response, err := t.base.RoundTrip(request)
	if err != nil || response.StatusCode == http.StatusOK {
		return response, err
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response, err
}

// sighting is a new, verified checkpoint.
type sighting struct {
	at   time.Time // the time of the answer to the poll
	size uint64
	hash []byte
}

// follower polls the checkpoint. It keeps each new one, and fails if the log violates its guarantees.
type follower struct {
	config   *logConfig
	reader   logReader
	verifier note.Verifier

	mu        sync.Mutex
	seen      []sighting // in ascending order of size; never empty
	raw       []byte     // the latest checkpoint, as read
	polls     int
	failed    int
	lastError error // the error of the latest poll, if it failed
}

// newFollower returns a follower that has seen the first checkpoint. A server that has just started may not have
// published one yet, so newFollower waits up to the timeout of a request.
func newFollower(ctx context.Context, config *logConfig, headers map[string]string) (*follower, error) {
	verifier, err := newVerifier(config.PublicKey)
	if err != nil {
		return nil, err
	}
	reader, err := newReader(config, headers)
	if err != nil {
		return nil, err
	}
	f := &follower{config: config, reader: reader, verifier: verifier}
	deadline := time.Now().Add(seconds(config.TimeoutS))
	for len(f.seen) == 0 {
		if err := f.poll(ctx); err != nil {
			return nil, err
		}
		if f.lastError != nil {
			if !errors.Is(f.lastError, os.ErrNotExist) || time.Now().After(deadline) {
				return nil, fmt.Errorf("no checkpoint at %s: %w", config.ReadURL, f.lastError)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return f, nil
}

// during follows the log while `work` runs. If the log violates its guarantees, the context of `work` ends, and during
// returns the error.
func (f *follower) during(parent context.Context, work func(ctx context.Context)) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	end := make(chan error, 1)
	go func() {
		defer cancel()
		end <- f.follow(ctx)
	}()
	work(ctx)
	cancel()
	return <-end
}

// follow polls at a fixed interval until the context ends, or the log violates its guarantees.
func (f *follower) follow(ctx context.Context) error {
	ticks := time.NewTicker(seconds(f.config.PollIntervalS))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C: // the ticker skips ticks that a slow poll missed
		}
		if err := f.poll(ctx); err != nil {
			return err
		}
	}
}

// poll reads the checkpoint once. It counts a checkpoint that cannot be read, and does not return an error.
func (f *follower) poll(ctx context.Context) error {
	raw, err := f.reader.ReadCheckpoint(ctx)
	at := time.Now()
	if ctx.Err() != nil {
		return nil // the end of the run, not a failure of the log
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls++
	f.lastError = err
	if err != nil {
		f.failed++
		return nil
	}
	if bytes.Equal(raw, f.raw) {
		return nil // already verified
	}
	checkpoint, _, _, err := log.ParseCheckpoint(raw, f.verifier.Name(), f.verifier)
	if err != nil {
		return fmt.Errorf("the checkpoint at %s does not verify with the public key of %s (%08x): %w; it reads %q",
			f.config.ReadURL, f.verifier.Name(), f.verifier.KeyHash(), err, strings.ToValidUTF8(string(raw[:min(len(raw), 500)]), "?"))
	}
	f.raw = raw
	if len(f.seen) > 0 {
		last := f.seen[len(f.seen)-1]
		if checkpoint.Size < last.size {
			return fmt.Errorf("the log at %s shrank: from a checkpoint of %d leaves to one of %d", f.config.ReadURL, last.size, checkpoint.Size)
		}
		if checkpoint.Size == last.size {
			if !bytes.Equal(checkpoint.Hash, last.hash) {
				return fmt.Errorf("the log at %s has two checkpoints of %d leaves with different roots: %x and %x", f.config.ReadURL, last.size, last.hash, checkpoint.Hash)
			}
			return nil // signed again
		}
	}
	f.seen = append(f.seen, sighting{at, checkpoint.Size, checkpoint.Hash})
	return nil
}

// size returns the size of the latest verified checkpoint.
func (f *follower) size() uint64 { return f.last().size }

func (f *follower) last() sighting {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[len(f.seen)-1]
}

// longestStep returns the longest time between two new checkpoints, without the first one, which may have been old, and
// the time of the last one.
func (f *follower) longestStep() (time.Duration, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest := time.Duration(0)
	for i := 2; i < len(f.seen); i++ {
		longest = max(longest, f.seen[i].at.Sub(f.seen[i-1].at))
	}
	return longest, f.seen[len(f.seen)-1].at
}
