package main

import "time"

// secondly has the figures of each second of the load.
type secondly []secondOfLoad

type secondOfLoad struct {
	sample
	adds, integrations []time.Duration
}

func newSecondly(load time.Duration) secondly {
	return make(secondly, max(1, int((load+time.Second-1)/time.Second)))
}

// at returns the second of a time. Times after the load, such as those of the last answers, get a second that is not
// shown, because its length would differ.
func (s secondly) at(t time.Duration) *secondOfLoad {
	second := int(t / time.Second)
	if t < 0 || second >= len(s) {
		return &secondOfLoad{}
	}
	return &s[second]
}

func (s *secondOfLoad) count(a *attempt) {
	if a.outcome == dropped {
		s.Dropped++
		return
	}
	s.Sent++
	switch {
	case a.outcome == pushback500 || a.outcome == pushback503:
		s.Pushback++
	case !a.has():
		s.Errors++
	}
}

func (s secondly) samples() []sample {
	samples := make([]sample, 0, len(s))
	for i, second := range s {
		adds, integrations := summaryOf(second.adds), summaryOf(second.integrations)
		second.TS = float64(i)
		second.AddP50S, second.AddP99S = adds.quantile(0.5), adds.quantile(0.99)
		second.IntegrateP50S, second.IntegrateP99S = integrations.quantile(0.5), integrations.quantile(0.99)
		samples = append(samples, second.sample)
	}
	return samples
}
