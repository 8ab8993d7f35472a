// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller/endpoint"
)

// Defaults of [Config].
const (
	DefaultTimeout    = 5 * time.Second
	DefaultTTL        = time.Minute
	DefaultPause      = 15 * time.Second
	DefaultConcurrent = 4
)

// maxAnswers bounds the number of cached answers.
const maxAnswers = 4096

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
	server *endpoint.Client
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
		server: endpoint.New(endpoint.Config{
			Server: "license server", Timeout: config.Timeout, MaxConnections: config.Concurrent, IdleTimeout: config.TTL, TLS: config.TLS,
		}),
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
	code, err := c.server.Send(ctx, http.MethodGet, at)
	if failure := (*endpoint.RequestError)(nil); errors.As(err, &failure) {
		return Answer{Unavailable, failure.Message}, failure.Reached
	}
	return c.answerOf(code), true
}

// answerOf returns the answer for a status code. Codes 408 and 429 ask for a retry,
// so they deny nothing.
func (c *Client) answerOf(code int) Answer {
	message := c.server.Answered(code)
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
