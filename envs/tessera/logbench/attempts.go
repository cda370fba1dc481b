package main

import (
	"sync/atomic"
	"time"
)

// outcome is the result of one planned leaf.
type outcome uint8

const (
	unsent       outcome = iota
	accepted             // with an index of its own
	duplicate            // with the index that the log gave to the same leaf before
	pushback500          // 500 with a text that says so: POSIX and MySQL
	pushback503          // 503: AWS and GCP
	statusError          // any other status
	answerError          // 200 without an index
	connectError         // no connection, or a broken one
	timeoutError         // no answer in time
	dropped              // not sent, because the limit of leaves in flight was reached
	outcomes             // the number of outcomes
)

func (o outcome) String() string {
	return [outcomes]string{
		"unsent", "accepted", "duplicate", "pushback_500", "pushback_503", "errors_status", "errors_answer",
		"errors_connect", "errors_timeout", "dropped",
	}[o]
}

// attempt is one planned leaf. Its index in the list of all attempts is its number, which gives its intended start.
// Only one worker writes it, so counting needs no lock. Attempts are summed up after the load.
type attempt struct {
	// The index from the answer + 1, and 0 before the answer. Other workers read it to find leaves to repeat.
	given    atomic.Uint64
	begun    time.Duration // since the start of the load
	answered time.Duration
	leaf     int // the leaf whose content was sent: its own number, or that of the leaf that it repeats
	outcome  outcome
}

// index returns the index that the log answered; only for accepted and duplicate.
func (a *attempt) index() uint64 { return a.given.Load() - 1 }

// has returns whether the log accepted the leaf.
func (a *attempt) has() bool { return a.outcome == accepted || a.outcome == duplicate }
