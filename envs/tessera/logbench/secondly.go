package main

import "time"

// secondly has the figures of each second of the load.
type secondly []secondOfLoad

type secondOfLoad struct {
	sent, accepted, pushback, errors, dropped int
	integrated                                uint64
	adds, integrations                        []time.Duration
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
		s.dropped++
		return
	}
	s.sent++
	switch {
	case a.outcome == pushback500 || a.outcome == pushback503:
		s.pushback++
	case !a.has():
		s.errors++
	}
}

func (s secondly) samples() []sample {
	samples := make([]sample, 0, len(s))
	for i, second := range s {
		adds, integrations := summaryOf(second.adds), summaryOf(second.integrations)
		samples = append(samples, sample{
			TS:            float64(i),
			Sent:          second.sent,
			Accepted:      second.accepted,
			Integrated:    second.integrated,
			Pushback:      second.pushback,
			Errors:        second.errors,
			Dropped:       second.dropped,
			AddP50S:       adds.quantile(0.5),
			AddP99S:       adds.quantile(0.99),
			IntegrateP50S: integrations.quantile(0.5),
			IntegrateP99S: integrations.quantile(0.99),
		})
	}
	return samples
}
