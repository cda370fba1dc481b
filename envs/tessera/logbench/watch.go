package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// watch follows a log that another program writes to.
func watch(arguments []string) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	configPath := flags.String("config", "", "JSON file with the log and the duration")
	out := flags.String("out", "", "file to write the result to, as JSON")
	if err := parseFlags(flags, arguments, "config", "out"); err != nil {
		return err
	}
	config := &watchConfig{logConfig: defaults(), StillS: 3}
	if err := read(*configPath, config); err != nil {
		return err
	}
	// A signal shortens the watch, and does not fail it.
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := runWatch(context.Background(), ended, config)
	if err != nil {
		return err
	}
	return result.save(*out)
}

// runWatch fails like runWrite: if the log cannot be read at the start, or violates its guarantees.
func runWatch(ctx, ended context.Context, config *watchConfig) (*result, error) {
	headers, err := config.expandedHeaders()
	if err != nil {
		return nil, err
	}
	follower, err := newFollower(ctx, &config.logConfig, headers)
	if err != nil {
		return nil, err
	}
	start, begin, usage := time.Now(), usedUpToNow(), windowUsage{}
	err = follower.during(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-ended.Done():
		case <-time.After(seconds(config.DurationS)):
		}
		usage = usedUpToNow().since(begin)
		waitStill(ctx, follower, seconds(config.StillS), seconds(config.DrainS))
	})
	if err != nil {
		return nil, err
	}
	proofs, err := proveWatched(ctx, &config.logConfig, follower)
	if err != nil {
		return nil, err
	}
	result := newResult("watch", &config.logConfig, follower, start, proofs)
	result.CPUUserS, result.CPUSystemS = round(usage.user), round(usage.system)
	return result, nil
}

// waitStill waits until the tree has not grown for `still`, and for longer than the longest step between checkpoints. If
// the writer has ended, the last leaves are then integrated.
func waitStill(ctx context.Context, follower *follower, still, within time.Duration) {
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		longest, last := follower.longestStep()
		if time.Since(last) > max(still, longest+longest/4) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
