// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/endpoint"
	"github.com/example/demoapp-controller/pkg/expiring"
)

// Defaults of [Config].
const (
	DefaultTimeout    = 5 * time.Second
	DefaultTTL        = time.Minute
	DefaultFresh      = 5 * time.Second
	DefaultPause      = 15 * time.Second
	DefaultConcurrent = 4
)

// maxAnswers bounds the number of cached answers. Beyond it, the namespace with the most answers
// loses its oldest one.
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
	// Timeout bounds one request with its redirects, and before it the wait for other
	// requests. The default is 5 s.
	Timeout time.Duration
	// TTL is the time for which an answer is cached. The default is 1 min.
	TTL time.Duration
	// Fresh is the time after an answer, or after the begin of a pause, in which a refresh
	// sends no request. The default is 5 s.
	Fresh time.Duration
	// Pause is the time without requests after the server could not be reached. The
	// default is 15 s.
	Pause time.Duration
	// Concurrent is the number of concurrent requests. One namespace uses at most half of
	// it. The default is 4.
	Concurrent int
	// TLS configures the CAs of the server. The default is the CAs of the system.
	TLS   *tls.Config
	Clock clock.Clock
}

// Client asks a license server. It is safe for concurrent use.
type Client struct {
	config Config
	server *endpoint.Client

	mu sync.Mutex
	// answers are the cached answers, by the URL of their request.
	answers expiring.Map[string, cachedAnswer]
	// pause is the answer while no request is sent. Its time is the time of the failure.
	pause cachedAnswer
	// asking are the questions in flight, by the URL of their request.
	asking map[string]*question
}

type cachedAnswer struct {
	answer Answer
	// namespace is the namespace of the subject of the question.
	namespace string
	// at is the time of the answer; zero for none.
	at time.Time
}

// isYounger reports whether there is an answer that is younger than age.
func (a cachedAnswer) isYounger(age time.Duration, now time.Time) bool {
	return !a.at.IsZero() && now.Sub(a.at) < age
}

// New returns a client. It sends nothing.
func New(config Config) *Client {
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	config.TTL = cmp.Or(config.TTL, DefaultTTL)
	config.Fresh = cmp.Or(config.Fresh, DefaultFresh)
	config.Pause = cmp.Or(config.Pause, DefaultPause)
	config.Concurrent = cmp.Or(config.Concurrent, DefaultConcurrent)
	return &Client{
		config: config,
		server: endpoint.New(endpoint.Config{
			Server: "license server", Timeout: config.Timeout, Concurrent: config.Concurrent, IdleTimeout: config.TTL, TLS: config.TLS,
		}),
		answers: expiring.Map[string, cachedAnswer]{
			Limit: maxAnswers, Namespace: func(cached cachedAnswer) string { return cached.namespace },
		},
		asking: map[string]*question{},
	}
}

// Ask returns the cached answer for subject, or sends a request. With refresh, it uses a
// cached answer only if that is a grant and younger than Config.Fresh. It waits before it asks
// again for another answer of that age. Equal questions at a time share one request.
//
// A pass that calls Ask frees its worker while it waits, see [controller.ReleaseWorker].
func (c *Client) Ask(ctx context.Context, subject Subject, refresh bool) Answer {
	at, err := c.config.URL.of(subject)
	if err != nil {
		return Answer{Unavailable, "The URL template of the license server yields no valid URL for this app"}
	}
	id, since := at.String(), c.config.Clock.Now()
	if known, ok := c.cached(id, refresh); ok {
		return known
	}
	reclaim, err := controller.ReleaseWorker(ctx)
	if err != nil {
		return busy
	}
	defer reclaim()
	for {
		if wait := c.waitFor(id, since, refresh); wait > 0 {
			select {
			case <-c.config.Clock.After(wait):
			case <-ctx.Done():
				return busy
			}
		}
		known, asked, mine := c.begin(id, since, refresh)
		switch {
		case known != nil:
			return *known
		case mine:
			c.ask(ctx, subject.Namespace, at, asked)
			return asked.answer
		}
		select {
		case <-asked.ended:
		case <-ctx.Done():
			return busy
		}
		if !asked.canceled {
			return asked.answer
		}
	}
}

// waitFor returns the time until a refresh may ask again; 0 if the last answer is younger than
// the question.
func (c *Client) waitFor(id string, since time.Time, refresh bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.answers.Get(id, c.config.Clock.Now())
	if !refresh || !ok || !last.at.Before(since) {
		return 0
	}
	return c.config.Fresh - c.config.Clock.Since(last.at)
}

// busy is the answer without a request.
var busy = Answer{Unavailable, "Too many requests to the license server are in flight"}

// question is a request in flight.
type question struct {
	// ended is closed when the fields below are set.
	ended  chan struct{}
	answer Answer
	// canceled says that the caller canceled the request, so that the answer is no answer.
	canceled bool
}

// begin returns the answer if it is cached, and the question in flight otherwise. The caller
// has to ask the question if it is mine.
func (c *Client) begin(id string, since time.Time, refresh bool) (known *Answer, asked *question, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, _ := c.answers.Get(id, c.config.Clock.Now()); refresh && last.at.After(since) {
		return &last.answer, nil, false
	}
	if answer, ok := c.cachedLocked(id, refresh); ok {
		return &answer, nil, false
	}
	if asked, ok := c.asking[id]; ok {
		return nil, asked, false
	}
	asked = &question{ended: make(chan struct{}), answer: busy}
	c.asking[id] = asked
	return nil, asked, true
}

// ask sends the request of a question, and caches the answer.
func (c *Client) ask(ctx context.Context, namespace string, at *url.URL, asked *question) {
	id, reached := at.String(), unsent
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asking, id)
		asked.canceled = context.Cause(ctx) == context.Canceled //nolint:errorlint // The caller canceled, which is no failure of the server.
		if !asked.canceled {
			c.cache(id, namespace, asked.answer, reached)
		}
		close(asked.ended)
	}()
	asked.answer, reached = c.send(ctx, namespace, at)
}

// outcome says what a request reached.
type outcome int

const (
	// unsent means that no request was sent.
	unsent outcome = iota
	// unreached means that the server did not answer.
	unreached
	// answered means that the server answered.
	answered
)

// send sends one request.
func (c *Client) send(ctx context.Context, namespace string, at *url.URL) (Answer, outcome) {
	code, err := c.server.Send(ctx, namespace, http.MethodGet, at)
	var failure *endpoint.RequestError
	switch {
	case errors.As(err, &failure) && failure.Reached:
		return Answer{Unavailable, failure.Message}, answered
	case errors.As(err, &failure):
		return Answer{Unavailable, failure.Message}, unreached
	case err != nil:
		return busy, unsent
	default:
		return c.answerOf(code), answered
	}
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
func (c *Client) cached(id string, refresh bool) (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cachedLocked(id, refresh)
}

// cachedLocked is cached for a caller that holds the lock.
func (c *Client) cachedLocked(id string, refresh bool) (Answer, bool) {
	now, pause := c.config.Clock.Now(), c.config.Pause
	known, _ := c.answers.Get(id, now)
	usable := known.isYounger(c.config.TTL, now)
	if refresh {
		usable = known.isYounger(c.config.Fresh, now) && known.answer.Verdict == Granted
		pause = min(pause, c.config.Fresh)
	}
	if usable {
		return known.answer, true
	}
	return c.pause.answer, c.pause.isYounger(pause, now)
}

// cache caches an answer for a subject of the namespace. If the server was not reached, it starts a
// pause instead. The caller holds the lock.
func (c *Client) cache(id, namespace string, answer Answer, reached outcome) {
	now := c.config.Clock.Now()
	switch reached {
	case unsent:
	case unreached:
		c.pause = cachedAnswer{answer: answer, at: now}
	case answered:
		c.pause = cachedAnswer{}
		c.answers.Set(id, cachedAnswer{answer: answer, namespace: namespace, at: now}, max(c.config.TTL, c.config.Fresh), now)
	}
}
