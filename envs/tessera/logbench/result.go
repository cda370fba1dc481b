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

// result is the file that `write --out` writes. Times `t_s` are since the start of the load, and negative before it.
type result struct {
	Schema       int     `json:"schema"`
	Tool         string  `json:"tool"`
	Mode         string  `json:"mode"` // write or watch; a watch offers nothing
	GoVersion    string  `json:"go_version"`
	Processors   int     `json:"processors"` // that this process may use
	StartedUnixS float64 `json:"started_unix_s"`
	RunID        string  `json:"run_id"` // the first 8 bytes of each leaf, in hexadecimal
	// The configuration, without addresses, headers and keys.
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
	OfferedPerS float64 `json:"offered_per_s"` // rate of leaves that were sent in the window
	// Outcomes of the leaves that were due in the window, and of all leaves.
	Window counts `json:"window"`
	Total  counts `json:"total"`
	// Messages of the log for leaves that it did not accept, the most frequent first.
	Texts      []textCount `json:"texts"`
	TextsOther int         `json:"texts_other"`

	// Times of the leaves that were due in the window, from when they were due.
	StartDelay       summary      `json:"start_delay"`       // until the leaf was sent: above some ms, this process was the limit
	AddLatency       distribution `json:"add_latency"`       // until the log answered, for new leaves
	DuplicateLatency distribution `json:"duplicate_latency"` // until the log answered, for duplicates
	IntegrateLatency distribution `json:"integrate_latency"` // until a poll saw a verified checkpoint that covers a new leaf

	Checkpoints []checkpointRow `json:"checkpoints"`
	Samples     []sample        `json:"samples"`
	Polls       polls           `json:"polls"`
	Proofs      *proofResult    `json:"proofs"`
	CPUUserS    float64         `json:"cpu_user_s"` // of this process, in the window
	CPUSystemS  float64         `json:"cpu_system_s"`
}

// counts has the outcomes of leaves: planned = sent + dropped, and sent is the sum of all others. `accepted` includes
// duplicates, which the log answered with the index that it gave to the same leaf before.
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

// checkpointRow is a new, verified checkpoint, with the time of the poll.
type checkpointRow struct {
	TS   float64 `json:"t_s"`
	Size uint64  `json:"size"`
}

// sample is the second of the load that starts at t_s. `accepted` counts the answers in it, `integrated` the growth of
// the tree in it. All else covers the leaves that were due in it.
type sample struct {
	TS            float64  `json:"t_s"`
	Sent          int      `json:"sent"`
	Accepted      int      `json:"accepted"`
	Integrated    uint64   `json:"integrated"`
	Pushback      int      `json:"pushback"`
	Errors        int      `json:"errors"`
	Dropped       int      `json:"dropped"`
	AddP50S       *float64 `json:"add_p50_s"` // null if no leaf was accepted
	AddP99S       *float64 `json:"add_p99_s"`
	IntegrateP50S *float64 `json:"integrate_p50_s"`
	IntegrateP99S *float64 `json:"integrate_p99_s"`
}

type polls struct {
	Asked  int    `json:"asked"`
	Failed int    `json:"failed"`
	Why    string `json:"why,omitempty"` // why the last poll failed, if it did
}

// newResult returns a result with what the follower saw. A load adds its figures.
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

// save writes the file atomically.
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

// addWritten adds the figures of the load.
func (r *result) addWritten(config *writeConfig, writer *writer, usage windowUsage, seen []sighting) {
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
			bySecond.at(a.answered).Accepted++
		}
		at, covered := time.Duration(0), false
		if a.outcome == accepted {
			second.adds = append(second.adds, a.answered-due)
			if at, covered = writer.integrated(seen, a); covered {
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
	for i := 1; i < len(seen); i++ {
		bySecond.at(seen[i].at.Sub(writer.start)).Integrated += seen[i].size - seen[i-1].size
	}
	r.OfferedPerS = round(float64(r.Window.Sent) / config.DurationS)
	r.StartDelay, r.AddLatency = summaryOf(delays), distributionOf(adds)
	r.DuplicateLatency, r.IntegrateLatency = distributionOf(duplicates), distributionOf(integrations)
	r.Samples = bySecond.samples()
}

// integrated returns when, since the start of the load, the first checkpoint that covers the leaf was seen; false if there
// is none. If that was before a new leaf was sent, its index is that of another leaf, as if two logs share a name.
func (w *writer) integrated(seen []sighting, a *attempt) (time.Duration, bool) {
	i := sort.Search(len(seen), func(i int) bool { return seen[i].size > a.index() })
	if i == len(seen) {
		return 0, false
	}
	at := seen[i].at.Sub(w.start)
	return at, at >= a.begun || a.outcome == duplicate
}

// rows returns the texts, the most frequent first.
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

// round drops digits below a microsecond, which are noise and would make up most of the file.
func round(s float64) float64 { return math.Round(s*1e6) / 1e6 }
