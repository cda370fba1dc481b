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

// logReader reads a log's static resources; tessera's own clients are such.
type logReader interface {
	ReadCheckpoint(ctx context.Context) ([]byte, error)
	ReadTile(ctx context.Context, level, index uint64, partial uint8) ([]byte, error)
}

func newReader(config *writeConfig, headers map[string]string) (logReader, error) {
	root, err := url.Parse(config.ReadURL)
	if err != nil {
		return nil, err
	}
	if root.Scheme == "file" {
		return client.FileFetcher{Root: root.Path}, nil
	}
	// Connections of its own: a poll does not wait behind leaves.
	transport := &readTransport{base: http.DefaultTransport.(*http.Transport).Clone(), headers: headers}
	return client.NewHTTPFetcher(root, &http.Client{Transport: transport, Timeout: seconds(config.TimeoutS)})
}

// readTransport adds headers. It also reads answers that are none to their end, because the fetcher leaves these open,
// and each would cost a connection.
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

// sighting is a checkpoint that was new when it was polled, and verified.
type sighting struct {
	at   time.Time // when the poll was answered
	size uint64
	hash []byte
}

// follower polls the checkpoint. It keeps each new one, and refuses what no log may publish.
type follower struct {
	reader   logReader
	verifier note.Verifier
	where    string
	timeout  time.Duration

	mu        sync.Mutex
	seen      []sighting // rising sizes
	raw       []byte     // the latest, as it was read
	polls     int
	failed    int
	lastError error // of the latest poll, when it failed
}

// first waits for the log's first checkpoint: a server that has just started may not have published one yet.
func (f *follower) first(ctx context.Context) error {
	deadline := time.Now().Add(f.timeout)
	for {
		if err := f.poll(ctx); err != nil {
			return err
		}
		if len(f.seen) > 0 {
			return nil
		}
		if !errors.Is(f.lastError, os.ErrNotExist) || time.Now().After(deadline) {
			return fmt.Errorf("no checkpoint at %s: %w", f.where, f.lastError)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// follow polls at a steady interval until the context ends, or the log does what no log may do.
func (f *follower) follow(ctx context.Context, interval time.Duration) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C: // the ticker leaves out ticks that a slow poll missed
		}
		if err := f.poll(ctx); err != nil {
			return err
		}
	}
}

// poll reads the checkpoint once. A checkpoint that cannot be read is counted, not an error.
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
		return nil // verified already
	}
	checkpoint, _, _, err := log.ParseCheckpoint(raw, f.verifier.Name(), f.verifier)
	if err != nil {
		return fmt.Errorf("the checkpoint at %s does not verify with the public key of %s (%08x): %w; it reads %q",
			f.where, f.verifier.Name(), f.verifier.KeyHash(), err, strings.ToValidUTF8(string(raw[:min(len(raw), 500)]), "?"))
	}
	f.raw = raw
	if len(f.seen) > 0 {
		last := f.seen[len(f.seen)-1]
		if checkpoint.Size < last.size {
			return fmt.Errorf("the log at %s shrank: from a checkpoint of %d leaves to one of %d", f.where, last.size, checkpoint.Size)
		}
		if checkpoint.Size == last.size {
			if !bytes.Equal(checkpoint.Hash, last.hash) {
				return fmt.Errorf("the log at %s has two checkpoints of %d leaves with different roots: %x and %x", f.where, last.size, last.hash, checkpoint.Hash)
			}
			return nil // signed again
		}
	}
	f.seen = append(f.seen, sighting{at, checkpoint.Size, checkpoint.Hash})
	return nil
}

// size is that of the latest verified checkpoint.
func (f *follower) size() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[len(f.seen)-1].size
}
