package main

import (
	"sync"
	"syscall"
	"time"
)

// windowUsage is the CPU time that this process used in the measured window.
type windowUsage struct {
	user, system float64 // s
}

// watchUsage reads the CPU time at the start and the end of the window, both from now. The function that it returns
// gives the difference after the window.
func watchUsage(low, high time.Duration) func() windowUsage {
	var begin, end windowUsage
	var looked sync.WaitGroup
	looked.Add(2)
	time.AfterFunc(low, func() { begin = usedUpToNow(); looked.Done() })
	time.AfterFunc(high, func() { end = usedUpToNow(); looked.Done() })
	return func() windowUsage {
		looked.Wait()
		return end.since(begin)
	}
}

func (u windowUsage) since(begin windowUsage) windowUsage {
	return windowUsage{u.user - begin.user, u.system - begin.system}
}

func usedUpToNow() windowUsage {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // impossible for the process itself
	}
	return windowUsage{time.Duration(usage.Utime.Nano()).Seconds(), time.Duration(usage.Stime.Nano()).Seconds()}
}
