package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sort"
	"time"
)

// result is the file that `write --out` writes. Times `t_s` count from the start of the load, and are negative before.
type result struct {
	Schema       int     `json:"schema"`
	Tool         string  `json:"tool"`
	Mode         string  `json:"mode"` // write or watch; a watch offers nothing
	GoVersion    string  `json:"go_version"`
	Processors   int     `json:"processors"` // that this process may use at the same time
	StartedUnixS float64 `json:"started_unix_s"`
	RunID        string  `json:"run_id"` // the first 8 bytes of each leaf, in hexadecimal
	// What was asked for, without addresses, headers and keys.
	RatePerS       float64 `json:"rate_per_s"`
	WarmUpS        float64 `json:"warm_up_s"`
	DurationS      float64 `json:"duration_s"`
	CoolDownS      float64 `json:"cool_down_s"`
	MaxInFlight    int     `json:"max_in_flight"`
	DuplicateShare float64 `json:"duplicate_share"`
	LeafBytes      int     `json:"leaf_bytes"`
	PollIntervalS  float64 `json:"poll_interval_s"`
	TimeoutS       float64 `json:"timeout_s"`
	FrontEnds      int     `json:"front_ends"`

	Origin      string  `json:"origin"`
	OfferedPerS float64 `json:"offered_per_s"` // really begun, in the window
	// Of leaves whose intended start lies in the window, and of all.
	Window counts `json:"window"`
	Total  counts `json:"total"`
	// What the log said instead of accepting a leaf, the most frequent first.
	Texts      []textCount `json:"texts"`
	TextsOther int         `json:"texts_other"`

	// Of leaves whose intended start lies in the window, and from that start.
	StartDelay       summary      `json:"start_delay"`       // until the leaf was begun: above some ms, this process was the limit
	AddLatency       distribution `json:"add_latency"`       // until the log answered a new leaf
	DuplicateLatency distribution `json:"duplicate_latency"` // until the log answered a leaf that it had
	IntegrateLatency distribution `json:"integrate_latency"` // until a poll saw the first verified checkpoint that covers a new leaf

	Checkpoints []checkpointRow `json:"checkpoints"`
	Samples     []sample        `json:"samples"`
	Polls       polls           `json:"polls"`
	Proofs      *proofResult    `json:"proofs"`
	CPUUserS    float64         `json:"cpu_user_s"` // of this process, in the window
	CPUSystemS  float64         `json:"cpu_system_s"`
}

// counts says what became of leaves: planned = sent + dropped, and sent is the sum of all the others. `accepted`
// includes duplicates, which are answers with the index that the same leaf had been given before.
type counts struct {
	Planned        int `json:"planned"`
	Sent           int `json:"sent"`
	Accepted       int `json:"accepted"`
	Duplicates     int `json:"duplicates"`
	DuplicatesSent int `json:"duplicates_sent"`
	Pushback500    int `json:"pushback_500"`
	Pushback503    int `json:"pushback_503"`
	ErrorsStatus   int `json:"errors_status"`
	ErrorsAnswer   int `json:"errors_answer"`
	ErrorsConnect  int `json:"errors_connect"`
	ErrorsTimeout  int `json:"errors_timeout"`
	Dropped        int `json:"dropped"`
}

func (c *counts) add(n int, a *attempt) {
	c.Planned++
	if a.outcome == dropped {
		c.Dropped++
		return
	}
	c.Sent++
	if a.leaf != n {
		c.DuplicatesSent++
	}
	switch a.outcome {
	case accepted:
		c.Accepted++
	case duplicate:
		c.Accepted++
		c.Duplicates++
	case pushback500:
		c.Pushback500++
	case pushback503:
		c.Pushback503++
	case statusError:
		c.ErrorsStatus++
	case answerError:
		c.ErrorsAnswer++
	case connectError:
		c.ErrorsConnect++
	case timeoutError:
		c.ErrorsTimeout++
	}
}

type textCount struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// checkpointRow is a new verified checkpoint, when a poll saw it.
type checkpointRow struct {
	TS   float64 `json:"t_s"`
	Size uint64  `json:"size"`
}

// sample is one second of the load, from t_s on. `accepted` counts answers that came in it, `integrated` leaves that
// the tree grew by; all else belongs to leaves that were due in it.
type sample struct {
	TS            float64  `json:"t_s"`
	Sent          int      `json:"sent"`
	Accepted      int      `json:"accepted"`
	Integrated    uint64   `json:"integrated"`
	Pushback      int      `json:"pushback"`
	Errors        int      `json:"errors"`
	Dropped       int      `json:"dropped"`
	AddP50S       *float64 `json:"add_p50_s"` // null where no leaf was accepted
	AddP99S       *float64 `json:"add_p99_s"`
	IntegrateP50S *float64 `json:"integrate_p50_s"`
	IntegrateP99S *float64 `json:"integrate_p99_s"`
}

type polls struct {
	Asked  int    `json:"asked"`
	Failed int    `json:"failed"`
	Why    string `json:"why,omitempty"` // of the last one, when it failed
}

// newResult holds what the follower saw; a load adds its own.
func newResult(mode string, config *logConfig, follower *follower, start time.Time, proofs *proofResult) *result {
	r := &result{
		Schema:        1,
		Tool:          "logbench",
		Mode:          mode,
		GoVersion:     runtime.Version(),
		Processors:    runtime.GOMAXPROCS(0),
		StartedUnixS:  float64(start.UnixMicro()) / 1e6,
		DurationS:     config.DurationS,
		PollIntervalS: config.PollIntervalS,
		TimeoutS:      config.TimeoutS,
		Origin:        follower.verifier.Name(),
		Texts:         []textCount{},
		Samples:       []sample{},
		Checkpoints:   []checkpointRow{},
		Polls:         polls{Asked: follower.polls, Failed: follower.failed},
		Proofs:        proofs,
		StartDelay:    summaryOf(nil),

		AddLatency:       distributionOf(nil),
		DuplicateLatency: distributionOf(nil),
		IntegrateLatency: distributionOf(nil),
	}
	if follower.lastError != nil {
		r.Polls.Why = follower.lastError.Error()
	}
	for _, one := range follower.seen {
		r.Checkpoints = append(r.Checkpoints, checkpointRow{round(one.at.Sub(start).Seconds()), one.size})
	}
	return r
}

// save writes the file, which appears whole or not at all.
func (r *result) save(path string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// addWritten adds what was offered, and sums up what became of it.
func (r *result) addWritten(config *writeConfig, writer *writer, usage windowUsage, seen sightings) {
	r.RunID = fmt.Sprintf("%016x", writer.leaves.run)
	r.RatePerS, r.WarmUpS, r.CoolDownS = config.RatePerS, config.WarmUpS, config.CoolDownS
	r.MaxInFlight, r.DuplicateShare = config.MaxInFlight, config.DuplicateShare
	r.LeafBytes, r.FrontEnds = config.LeafBytes, len(config.WriteURLs)
	r.Texts, r.TextsOther = writer.texts.rows(), writer.texts.other
	r.CPUUserS, r.CPUSystemS = round(usage.user), round(usage.system)

	var delays, adds, duplicates, integrations []time.Duration
	low, high := config.window()
	bySecond := newSecondly(seconds(config.loadS()))
	for n := range writer.attempts {
		a, due := &writer.attempts[n], config.intended(n)
		inWindow := low <= due && due < high
		second := bySecond.at(due)
		r.Total.add(n, a)
		second.count(a)
		if a.has() {
			bySecond.at(a.answered).accepted++
		}
		at, covered := time.Duration(0), false
		if a.outcome == accepted {
			second.adds = append(second.adds, a.answered-due)
			if at, covered = seen.covering(a.index()); covered {
				second.integrations = append(second.integrations, at-due)
			}
		}
		if !inWindow {
			continue
		}
		r.Window.add(n, a)
		if a.outcome != dropped {
			delays = append(delays, a.begun-due)
		}
		switch a.outcome {
		case accepted:
			adds = append(adds, a.answered-due)
			if covered {
				integrations = append(integrations, at-due)
			}
		case duplicate:
			duplicates = append(duplicates, a.answered-due)
		}
	}
	for i := 1; i < len(seen.at); i++ {
		bySecond.at(seen.at[i]).integrated += seen.sizes[i] - seen.sizes[i-1]
	}
	r.OfferedPerS = round(float64(r.Window.Sent) / config.DurationS)
	r.StartDelay, r.AddLatency = summaryOf(delays), distributionOf(adds)
	r.DuplicateLatency, r.IntegrateLatency = distributionOf(duplicates), distributionOf(integrations)
	r.Samples = bySecond.samples()
}

// sightings are the verified checkpoints, on the load's clock.
type sightings struct {
	at    []time.Duration
	sizes []uint64
}

func newSightings(seen []sighting, start time.Time) sightings {
	var s sightings
	for _, one := range seen {
		s.at = append(s.at, one.at.Sub(start))
		s.sizes = append(s.sizes, one.size)
	}
	return s
}

// covering is when the first checkpoint was seen that covers the leaf at the index; false when none does.
func (s sightings) covering(index uint64) (time.Duration, bool) {
	i := sort.Search(len(s.sizes), func(i int) bool { return s.sizes[i] > index })
	if i == len(s.sizes) {
		return 0, false
	}
	return s.at[i], true
}

// rows are the texts, the most frequent first.
func (t *answerTexts) rows() []textCount {
	rows := []textCount{}
	for key, count := range t.seen {
		rows = append(rows, textCount{key.kind.String(), key.text, count})
	}
	slices.SortFunc(rows, func(a, b textCount) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return rows
}

// round drops digits below a microsecond, which are noise and most of the file.
func round(s float64) float64 { return math.Round(s*1e6) / 1e6 }
