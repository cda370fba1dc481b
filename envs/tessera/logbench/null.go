package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/valyala/fasthttp"
	"golang.org/x/mod/sumdb/note"
)

// null serves a log in memory. It answers immediately with an index, and publishes a signed checkpoint and tiles. Its
// highest rate is the limit of the writer itself.
func null(arguments []string) error {
	flags := flag.NewFlagSet("null", flag.ContinueOnError)
	listen := flags.String("listen", "", "address:port to listen on; port 0 selects a free port")
	private := flags.String("private-key", "", "file with the key that signs checkpoints")
	interval := flags.Duration("publish-interval", 100*time.Millisecond, "time between checkpoints")
	lose := flags.Uint64("lose-every", 0, "replace every n-th leaf, like a broken log")
	refuse := flags.Uint64("refuse-every", 0, "answer every n-th leaf with 503, like an overloaded log")
	if err := parseFlags(flags, arguments, "listen", "private-key"); err != nil {
		return err
	}
	signer, err := readSigner(*private)
	if err != nil {
		return err
	}
	null := &nullLog{signer: signer, tree: newTree(), loseEvery: *lose, refuseEvery: *refuse}
	if err := null.publish(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "logbench null: listening on %s\n", listener.Addr())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 2)
	ticks := time.NewTicker(*interval)
	go func() {
		for range ticks.C {
			if err := null.publish(); err != nil {
				failed <- err
				return
			}
		}
	}()
	server := &fasthttp.Server{Handler: null.handle, NoDefaultServerHeader: true, NoDefaultDate: true}
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil // connections end with the process
	}
}

// nullLog is a log whose tree gets new leaves with the next checkpoint.
type nullLog struct {
	signer                 note.Signer
	tree                   *tree
	loseEvery, refuseEvery uint64
	asked                  atomic.Uint64
	checkpoint             atomic.Pointer[[]byte]

	mu     sync.Mutex
	leaves [][]byte // hashes of leaves that are not in the tree yet
	size   uint64   // number of all leaves, in the tree or not
}

func (l *nullLog) handle(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	switch {
	case ctx.IsPost() && path == "/add":
		l.add(ctx)
	case ctx.IsGet() && path == "/checkpoint":
		ctx.SetBody(*l.checkpoint.Load())
	case ctx.IsGet() && strings.HasPrefix(path, "/tile/"):
		l.tile(ctx, strings.TrimPrefix(path, "/tile/"))
	default:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
}

func (l *nullLog) add(ctx *fasthttp.RequestCtx) {
	turn := l.asked.Add(1)
	if l.refuseEvery > 0 && turn%l.refuseEvery == 0 {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		return
	}
	leaf := ctx.PostBody()
	if l.loseEvery > 0 && turn%l.loseEvery == 0 {
		leaf = []byte("another leaf")
	}
	hash := rfc6962.DefaultHasher.HashLeaf(leaf)
	l.mu.Lock()
	index := l.size
	l.size++
	l.leaves = append(l.leaves, hash)
	l.mu.Unlock()
	ctx.SetBody(strconv.AppendUint(nil, index, 10))
}

func (l *nullLog) tile(ctx *fasthttp.RequestCtx, path string) {
	level, rest, _ := strings.Cut(path, "/")
	tileLevel, index, partial, err := layout.ParseTileLevelIndexPartial(level, rest)
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
		return
	}
	content, there := l.tree.tile(tileLevel, index, partial)
	if !there {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return
	}
	ctx.SetBody(content)
}

// publish adds the new leaves to the tree and signs a checkpoint. It must not run concurrently.
func (l *nullLog) publish() error {
	l.mu.Lock()
	leaves := l.leaves
	l.leaves = make([][]byte, 0, cap(leaves))
	l.mu.Unlock()
	if len(leaves) == 0 && l.checkpoint.Load() != nil {
		return nil
	}
	size, root, err := l.tree.grow(leaves)
	if err != nil {
		return err
	}
	checkpoint := log.Checkpoint{Origin: l.signer.Name(), Size: size, Hash: root}
	signed, err := note.Sign(&note.Note{Text: string(checkpoint.Marshal())}, l.signer)
	if err != nil {
		return errors.Join(errors.New("signing the checkpoint"), err)
	}
	l.checkpoint.Store(&signed)
	return nil
}
