package main

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest exceeds any timeout. Histograms, but not quantiles, count longer times as this time.
	longest = time.Hour
	// Significant digits of the HDR histograms for the bins of charts, and for merging over trials.
	binDigits = 2
	hdrDigits = 3
)

var quantiles = []float64{0.5, 0.9, 0.95, 0.99, 0.999}

// summary describes times in seconds. Its quantiles are exact (nearest rank over all measured times).
type summary struct {
	Count     int             `json:"count"`
	MinS      *float64        `json:"min_s"` // null without times
	MeanS     *float64        `json:"mean_s"`
	MaxS      *float64        `json:"max_s"`
	Quantiles []quantileValue `json:"quantiles"`
}

// distribution adds histograms of the times, for charts and for merging.
type distribution struct {
	summary
	Bins []bin  `json:"bins"` // low_s <= time < high_s; empty bins are left out
	HDR  string `json:"hdr"`  // V2, compressed, in microseconds, as base64; empty without times
}

type quantileValue struct {
	Q     float64 `json:"q"`
	Value float64 `json:"value_s"`
}

type bin struct {
	LowS  float64 `json:"low_s"`
	HighS float64 `json:"high_s"`
	Count int64   `json:"count"`
}

// summaryOf summarizes the times. It sorts them in place.
func summaryOf(times []time.Duration) summary {
	s := summary{Count: len(times), Quantiles: []quantileValue{}}
	if len(times) == 0 {
		return s
	}
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t.Seconds()
	}
	mean := round(sum / float64(len(times)))
	least, most := round(times[0].Seconds()), round(times[len(times)-1].Seconds())
	s.MinS, s.MeanS, s.MaxS = &least, &mean, &most
	for _, q := range quantiles {
		rank := max(1, int(math.Ceil(q*float64(len(times)))))
		s.Quantiles = append(s.Quantiles, quantileValue{q, round(times[rank-1].Seconds())})
	}
	return s
}

// distributionOf builds the distribution of the times. It sorts them in place.
func distributionOf(times []time.Duration) distribution {
	d := distribution{summary: summaryOf(times), Bins: []bin{}}
	if len(times) == 0 {
		return d
	}
	coarse := hdrhistogram.New(1, longest.Microseconds(), binDigits)
	fine := hdrhistogram.New(1, longest.Microseconds(), hdrDigits)
	for _, t := range times {
		us := min(max(t, 0), longest).Microseconds()
		record(coarse, us)
		record(fine, us)
	}
	for _, bar := range coarse.Distribution() {
		if bar.Count > 0 {
			d.Bins = append(d.Bins, bin{round(float64(bar.From) / 1e6), round(float64(bar.To+1) / 1e6), bar.Count})
		}
	}
	encoded, err := fine.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err) // impossible: it writes to memory
	}
	d.HDR = string(encoded)
	return d
}

func record(histogram *hdrhistogram.Histogram, us int64) {
	if err := histogram.RecordValue(us); err != nil {
		panic(err) // impossible: the values are clamped to its range
	}
}

// quantile returns one of the computed quantiles; nil without times.
func (s summary) quantile(q float64) *float64 {
	for _, one := range s.Quantiles {
		if one.Q == q {
			return &one.Value
		}
	}
	return nil
}
