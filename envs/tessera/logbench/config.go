package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// maxPlanned bounds the memory of a run, which keeps the outcome of each leaf until the end.
	maxPlanned = 20_000_000
	// spareFiles are open besides the connections: for polls, proofs and the runtime.
	spareFiles = 64
)

// logConfig is common to write and watch. Times are in seconds.
type logConfig struct {
	ReadURL       string            `json:"read_url"`   // http(s):// or file://, the parent of `checkpoint` and `tile/`
	PublicKey     string            `json:"public_key"` // the text of the key
	DurationS     float64           `json:"duration_s"` // duration of the measured window
	PollIntervalS float64           `json:"poll_interval_s"`
	TimeoutS      float64           `json:"timeout_s"` // timeout of each request
	DrainS        float64           `json:"drain_s"`   // the longest wait for the last leaves to be integrated
	ProofSample   int               `json:"proof_sample"`
	Headers       map[string]string `json:"headers"` // headers of every request; $NAME and ${NAME} are expanded from the environment
}

// watchConfig is the file that `watch --config` reads.
type watchConfig struct {
	logConfig
	StillS float64 `json:"still_s"` // the watch ends once the tree has not grown for this time, and after drain_s at the latest
}

// writeConfig is the file that `write --config` reads. Rates are in 1/s, sizes in bytes.
type writeConfig struct {
	logConfig
	WriteURLs []string `json:"write_urls"` // front ends, used in turn; each has `add` below it

	RatePerS float64 `json:"rate_per_s"`
	WarmUpS  float64 `json:"warm_up_s"`
	// CoolDownS is the duration of the load after the window. Without it, an idle log would batch and integrate the
	// last leaves of the window.
	CoolDownS float64 `json:"cool_down_s"`

	MaxInFlight    int     `json:"max_in_flight"`
	DuplicateShare float64 `json:"duplicate_share"`
	LeafBytes      int     `json:"leaf_bytes"`
}

func defaults() logConfig {
	return logConfig{PollIntervalS: 0.05, TimeoutS: 30, DrainS: 30, ProofSample: 100}
}

// read reads and checks the file of a configuration, which has the defaults. It refuses unknown fields, so that a misspelt
// field does not silently get its default.
func read(path string, config interface{ check() error }) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(config)
	if err == nil {
		err = config.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (c *logConfig) check() error {
	switch {
	case c.ReadURL == "":
		return errors.New("read_url is missing")
	case c.PublicKey == "":
		return errors.New("public_key is missing")
	case !(c.DurationS > 0):
		return fmt.Errorf("duration_s must be above 0, got %v", c.DurationS)
	case !(c.PollIntervalS >= 0.001):
		return fmt.Errorf("poll_interval_s must be at least 0.001, got %v", c.PollIntervalS)
	case !(c.TimeoutS > 0):
		return fmt.Errorf("timeout_s must be above 0, got %v", c.TimeoutS)
	case c.DrainS < 0:
		return fmt.Errorf("drain_s must not be negative, got %v", c.DrainS)
	case c.ProofSample < 0:
		return fmt.Errorf("proof_sample must not be negative, got %d", c.ProofSample)
	}
	if strings.HasPrefix(c.ReadURL, "file:///") {
		return nil
	}
	return checkAddress("read_url", c.ReadURL)
}

func (c *writeConfig) check() error {
	if err := c.logConfig.check(); err != nil {
		return err
	}
	switch {
	case len(c.WriteURLs) == 0:
		return errors.New("write_urls needs at least one front end")
	case !(c.RatePerS > 0):
		return fmt.Errorf("rate_per_s must be above 0, got %v", c.RatePerS)
	case c.WarmUpS < 0 || c.CoolDownS < 0:
		return errors.New("warm_up_s and cool_down_s must not be negative")
	case c.MaxInFlight < 1:
		return fmt.Errorf("max_in_flight must be at least 1, got %d", c.MaxInFlight)
	case c.DuplicateShare < 0 || c.DuplicateShare > 1:
		return fmt.Errorf("duplicate_share must lie between 0 and 1, got %v", c.DuplicateShare)
	case c.LeafBytes < leafHeader:
		return fmt.Errorf("leaf_bytes must be at least %d, got %d: leaves need that many bytes to differ", leafHeader, c.LeafBytes)
	case c.LeafBytes > 65535:
		// An entry bundle stores the length of an entry in 16 bits.
		return fmt.Errorf("leaf_bytes must be at most 65535, got %d", c.LeafBytes)
	}
	if planned := c.RatePerS * c.loadS(); !(planned >= 1 && planned <= maxPlanned) {
		return fmt.Errorf("rate_per_s × (warm_up_s + duration_s + cool_down_s) = %g leaves: must be between 1 and %d", planned, maxPlanned)
	}
	for _, address := range c.WriteURLs {
		if err := checkAddress("write_urls", address); err != nil {
			return err
		}
	}
	return nil
}

func checkAddress(field, address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return fmt.Errorf("%s: %q is not an http:// or https:// address", field, address)
	}
	return nil
}

// expandedHeaders returns the headers with secrets from the environment.
func (c *logConfig) expandedHeaders() (map[string]string, error) {
	var missing []string
	headers := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		headers[name] = os.Expand(value, func(variable string) string {
			found, known := os.LookupEnv(variable)
			if !known {
				missing = append(missing, variable)
			}
			return found
		})
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("headers use %s, which the environment does not define", strings.Join(missing, ", "))
	}
	return headers, nil
}

// loadS returns how long leaves are offered, in seconds.
func (c *writeConfig) loadS() float64 { return c.WarmUpS + c.DurationS + c.CoolDownS }

// planned returns the number of leaves to offer.
func (c *writeConfig) planned() int { return int(c.RatePerS * c.loadS()) }

// intended returns when leaf n is due, from the start of the load.
func (c *writeConfig) intended(n int) time.Duration {
	return time.Duration(float64(n) / c.RatePerS * float64(time.Second))
}

// window returns the measured part of the load: [low, high).
func (c *writeConfig) window() (low, high time.Duration) {
	return seconds(c.WarmUpS), seconds(c.WarmUpS + c.DurationS)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// checkFileLimit requires one open file per request in flight, for its connection. Go has raised the soft limit already.
func checkFileLimit(inFlight int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(inFlight + spareFiles); limit.Max < need {
		return fmt.Errorf("max_in_flight %d + %d = %d open files, but this process may have %d: lower max_in_flight or raise the limit (ulimit -Hn)",
			inFlight, spareFiles, need, limit.Max)
	}
	return nil
}
