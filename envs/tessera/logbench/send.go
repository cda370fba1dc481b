package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// maxAnswer exceeds any index or message. A larger answer does not come from a log.
const maxAnswer = 1 << 16

// frontEnd is one server that accepts leaves, with its connections.
type frontEnd struct {
	client  *fasthttp.HostClient
	address string
	headers map[string]string
}

func newFrontEnds(config *writeConfig, headers map[string]string) ([]*frontEnd, error) {
	var fronts []*frontEnd
	for _, base := range config.WriteURLs {
		address, err := url.Parse(below(base, "add"))
		if err != nil {
			return nil, err
		}
		secure := address.Scheme == "https"
		dialer := &net.Dialer{Timeout: seconds(config.TimeoutS)}
		fronts = append(fronts, &frontEnd{
			address: address.String(),
			headers: headers,
			client: &fasthttp.HostClient{
				Addr:                fasthttp.AddMissingPort(address.Host, secure),
				Dial:                func(address string) (net.Conn, error) { return dialer.Dial("tcp", address) },
				IsTLS:               secure,
				TLSConfig:           &tls.Config{ServerName: address.Hostname()},
				MaxConns:            config.MaxInFlight,
				MaxIdleConnDuration: time.Hour, // connections are kept over idle periods
				MaxResponseBodySize: maxAnswer,
				// Each leaf is sent once: the time of a second attempt would count as latency of the first one.
				MaxIdemponentCallAttempts: 1,
				// No header that a log does not need.
				NoDefaultUserAgentHeader: true,
			},
		})
	}
	return fronts, nil
}

// below returns the address of `name` below `base`, which may end with a slash or not.
func below(base, name string) string { return strings.TrimSuffix(base, "/") + "/" + name }

// sender sends one leaf after the other. Each worker has its own, which reuses its memory.
type sender struct {
	fronts   []*frontEnd
	requests []fasthttp.Request // one for each front end
	response fasthttp.Response
	body     []byte
	timeout  time.Duration
}

func newSender(fronts []*frontEnd, timeout time.Duration) *sender {
	s := &sender{fronts: fronts, timeout: timeout, requests: make([]fasthttp.Request, len(fronts))}
	for i, front := range fronts {
		request := &s.requests[i]
		request.Header.SetMethod(fasthttp.MethodPost)
		request.Header.SetContentType("application/octet-stream")
		request.SetRequestURI(front.address)
		for name, value := range front.headers {
			request.Header.Set(name, value)
		}
	}
	return s
}

// add posts the body to the front end for leaf n. `text` describes a failure.
func (s *sender) add(n int) (index uint64, what outcome, text string) {
	front := n % len(s.fronts)
	request := &s.requests[front]
	request.SetBodyRaw(s.body)
	s.response.Reset()
	if err := s.fronts[front].client.DoTimeout(request, &s.response, s.timeout); err != nil {
		return 0, kindOf(err), textOf(err)
	}
	status, body := s.response.StatusCode(), s.response.Body()
	if status != fasthttp.StatusOK {
		return 0, kindOfStatus(status, body), fmt.Sprintf("%d %s", status, strings.TrimSpace(string(body)))
	}
	line, _, _ := strings.Cut(string(body), "\n")
	index, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		return 0, answerError, fmt.Sprintf("not an index: %q", line)
	}
	return index, accepted, ""
}

func kindOfStatus(status int, body []byte) outcome {
	switch {
	case status == fasthttp.StatusServiceUnavailable:
		return pushback503
	case status == fasthttp.StatusInternalServerError && strings.Contains(string(body), "pushback"):
		return pushback500
	}
	return statusError
}

func kindOf(err error) outcome {
	var network net.Error
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" {
		return connectError
	}
	if errors.Is(err, fasthttp.ErrTimeout) || errors.As(err, &network) && network.Timeout() {
		return timeoutError
	}
	return connectError
}

// textOf leaves out addresses, whose ports differ, so that equal failures have equal texts.
func textOf(err error) string {
	var operation *net.OpError
	switch {
	case errors.As(err, &operation):
		return operation.Op + ": " + operation.Err.Error()
	case errors.Is(err, fasthttp.ErrConnectionClosed):
		return "the server closed the connection without an answer" // the text of the library is advice for the server
	}
	return err.Error()
}
