package main

import (
	"sync/atomic"
	"time"
)

// outcome is what became of one planned leaf.
type outcome uint8

const (
	unsent       outcome = iota
	accepted             // with an index of its own
	duplicate            // with the index that the log had given to the same leaf before
	pushback500          // 500 and a text that says so: POSIX and MySQL
	pushback503          // 503: AWS and GCP
	statusError          // any other status
	answerError          // 200 and no index
	connectError         // no connection, or a broken one
	timeoutError         // no answer in time
	dropped              // not begun, because as many as allowed were in flight
	outcomes             // how many there are
)

func (o outcome) String() string {
	return [outcomes]string{
		"unsent", "accepted", "duplicate", "pushback_500", "pushback_503", "errors_status", "errors_answer",
		"errors_connect", "errors_timeout", "dropped",
	}[o]
}

// attempt is one planned leaf. Its place in the list of all is its number, from which its intended start follows; it
// is written by one worker, so that counting needs no lock, and summed up only when the load is over.
type attempt struct {
	// Of the answer: the index + 1, and 0 until there is one. Other workers look at it for leaves to repeat.
	given    atomic.Uint64
	begun    time.Duration // since the start of the load
	answered time.Duration
	leaf     int // whose content was sent: its own number, or that of the leaf it repeats
	outcome  outcome
}

// index is what the log answered; only for accepted and duplicate.
func (a *attempt) index() uint64 { return a.given.Load() - 1 }

// has tells whether the log said that it has the leaf.
func (a *attempt) has() bool { return a.outcome == accepted || a.outcome == duplicate }
