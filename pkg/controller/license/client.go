// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Defaults of [Config].
const (
	DefaultTimeout    = 5 * time.Second
	DefaultTTL        = time.Minute
	DefaultPause      = 15 * time.Second
	DefaultConcurrent = 4
)

const (
	// maxBody bounds the body of a response, in bytes. The body is not used.
	maxBody = 64 << 10
	// maxHeaders bounds the headers of a response, in bytes.
	maxHeaders = 64 << 10
	// maxRedirects is the number of redirects that are followed.
	maxRedirects = 3
	// maxAnswers bounds the number of cached answers.
	maxAnswers = 4096
)

// Verdict is the meaning of an answer.
type Verdict int

// The verdicts.
const (
	// Unavailable means that there was no usable answer.
	Unavailable Verdict = iota
	// Denied means that the server refused the license.
	Denied
	// Granted means that the server granted the license.
	Granted
)

// Answer is the result of a request.
type Answer struct {
	Verdict Verdict
	// Message explains the verdict in one sentence without secrets. Equal answers
	// have equal messages, so that a repeated request does not change a status.
	Message string
}

// Config configures a [Client]. Every field except URL and Clock has a default.
type Config struct {
	URL *URL
	// Timeout bounds one request with its redirects. The default is 5 s.
	Timeout time.Duration
	// TTL is the time for which an answer is cached. The default is 1 min.
	TTL time.Duration
	// Pause is the time without requests after the server could not be reached. The
	// default is 15 s.
	Pause time.Duration
	// Concurrent is the number of concurrent requests. The default is 4.
	Concurrent int
	// TLS configures the CAs of the server. The default is the CAs of the system.
	TLS   *tls.Config
	Clock clock.PassiveClock
}

// Client asks a license server. It is safe for concurrent use.
type Client struct {
	config Config
	http   *http.Client
	slots  chan struct{}

	mu      sync.Mutex
	answers map[string]cachedAnswer
	// No request is sent before pausedUntil. The answer is then pauseAnswer.
	pausedUntil time.Time
	pauseAnswer Answer
}

type cachedAnswer struct {
	answer Answer
	until  time.Time
}

// New returns a client. It sends nothing.
func New(config Config) *Client {
	config.Timeout = orElse(config.Timeout, DefaultTimeout)
	config.TTL = orElse(config.TTL, DefaultTTL)
	config.Pause = orElse(config.Pause, DefaultPause)
	config.Concurrent = orElse(config.Concurrent, DefaultConcurrent)
	return &Client{
		config: config,
		http: &http.Client{
			CheckRedirect: stayWithHost,
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				TLSClientConfig:        config.TLS,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true, // A small compressed body could expand to a large one.
				MaxResponseHeaderBytes: maxHeaders,
				MaxConnsPerHost:        config.Concurrent,
				IdleConnTimeout:        config.TTL,
			},
		},
		slots:   make(chan struct{}, config.Concurrent),
		answers: map[string]cachedAnswer{},
	}
}

func orElse[T comparable](value, fallback T) T {
	var none T
	if value == none {
		return fallback
	}
	return value
}

// Ask returns the cached answer for subject, or sends a request. With refresh, it
// always sends a request.
func (c *Client) Ask(ctx context.Context, subject Subject, refresh bool) Answer {
	at, err := c.config.URL.of(subject)
	if err != nil {
		return Answer{Unavailable, "The URL template of the license server yields no valid URL for this app"}
	}
	id := at.String()
	if known, ok := c.cached(id); ok && !refresh {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return Answer{Unavailable, "Too many requests to the license server are in flight"}
	}
	// A concurrent request may have cached an answer or a pause meanwhile.
	if known, ok := c.cached(id); ok && !refresh {
		return known
	}
	answer, reached := c.send(ctx, at)
	if context.Cause(ctx) == context.Canceled { //nolint:errorlint // The caller canceled, which is no failure of the server.
		return answer
	}
	c.cache(id, answer, reached)
	return answer
}

// send sends one request. It reports whether the server answered.
func (c *Client) send(ctx context.Context, at *url.URL) (answer Answer, reached bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return Answer{Unavailable, "The URL of the license server is not valid for a request"}, true
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{Unavailable, c.describe(err)}, errors.Is(err, errForeignRedirect) || errors.Is(err, errManyRedirects)
	}
	defer response.Body.Close()
	switch read, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxBody+1)); {
	case err != nil:
		return Answer{Unavailable, c.describe(err)}, false
	case read > maxBody:
		return Answer{Unavailable, fmt.Sprintf("The answer of the license server is larger than %d KiB", maxBody>>10)}, true
	default:
		return answerOf(response.StatusCode), true
	}
}

// answerOf returns the answer for a status code. Codes 408 and 429 ask for a retry,
// so they deny nothing.
func answerOf(code int) Answer {
	message := fmt.Sprintf("The license server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusOK:
		return Answer{Granted, "The license server granted it"}
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return Answer{Unavailable, message}
	case code >= 400 && code < 500:
		return Answer{Denied, message}
	default:
		return Answer{Unavailable, message}
	}
}

var (
	errForeignRedirect = errors.New("redirect to another host")
	errManyRedirects   = errors.New("too many redirects")
)

// stayWithHost refuses redirects to another host. Another host must not answer for
// the license server, and must not receive the URL.
func stayWithHost(request *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case request.URL.Scheme != first.Scheme || request.URL.Host != first.Host:
		return errForeignRedirect
	case len(via) > maxRedirects:
		return errManyRedirects
	default:
		return nil
	}
}

// describe returns a message for a failed request. It does not quote err, because
// network errors contain the URL and differ between attempts.
func (c *Client) describe(err error) string {
	var (
		timeout     net.Error
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, errForeignRedirect):
		return "The license server redirects to another host"
	case errors.Is(err, errManyRedirects):
		return "The license server redirects too often"
	case errors.As(err, &name):
		return "The name of the license server cannot be resolved"
	case errors.As(err, &certificate):
		return "The certificate of the license server cannot be verified"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("The license server did not answer within %s", c.config.Timeout)
	default:
		return "The connection to the license server failed"
	}
}

// cached returns the cached answer for id, or the answer of the current pause.
func (c *Client) cached(id string) (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	if known, ok := c.answers[id]; ok && now.Before(known.until) {
		return known.answer, true
	}
	return c.pauseAnswer, now.Before(c.pausedUntil)
}

// cache caches an answer. If the server was not reached, it starts a pause instead.
func (c *Client) cache(id string, answer Answer, reached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	if !reached {
		c.pausedUntil, c.pauseAnswer = now.Add(c.config.Pause), answer
		return
	}
	c.pausedUntil = time.Time{}
	if len(c.answers) >= maxAnswers {
		c.evict(now)
	}
	c.answers[id] = cachedAnswer{answer: answer, until: now.Add(c.config.TTL)}
}

// evict drops the expired answers, or all answers if none has expired.
func (c *Client) evict(now time.Time) {
	for id, known := range c.answers {
		if !now.Before(known.until) {
			delete(c.answers, id)
		}
	}
	if len(c.answers) >= maxAnswers {
		clear(c.answers)
	}
}
