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
	// maxBody is the most that an answer may hold, in bytes. Nothing in it is of
	// interest, and a larger one does not come from a license server.
	maxBody = 64 << 10
	// maxHeaders is the most that its headers may hold, in bytes.
	maxHeaders = 64 << 10
	// maxRedirects is how many redirects within the host are followed.
	maxRedirects = 3
	// maxAnswers bounds how many answers are remembered.
	maxAnswers = 4096
)

// Verdict is what an answer amounts to.
type Verdict int

// The verdicts.
const (
	// Unavailable is no answer, or none that can be used.
	Unavailable Verdict = iota
	// Denied is a no.
	Denied
	// Granted is a yes.
	Granted
)

// Answer is what became of a question.
type Answer struct {
	Verdict Verdict
	// Message says so to a person, in a sentence that holds no secret and is the
	// same each time.
	Message string
}

// Config is what a client needs. All but URL and Clock have defaults.
type Config struct {
	URL *URL
	// Timeout bounds one question, redirects included; default 5 s.
	Timeout time.Duration
	// TTL is how long an answer counts; default 1 min.
	TTL time.Duration
	// Pause is how long nothing is asked after the server could not be reached;
	// default 15 s.
	Pause time.Duration
	// Concurrent is how many questions are asked at a time; default 4.
	Concurrent int
	// TLS is for servers with certificates of their own; default that of the
	// system.
	TLS   *tls.Config
	Clock clock.PassiveClock
}

// Client asks a license server. It is safe for concurrent use.
type Client struct {
	config Config
	http   *http.Client
	slots  chan struct{}

	mu      sync.Mutex
	answers map[string]remembered
	// pause is until when the server is left alone, and why is what it did.
	pause time.Time
	why   Answer
}

type remembered struct {
	answer Answer
	until  time.Time
}

// New returns a client that has not asked anything yet.
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
				DisableCompression:     true, // A small answer could unfold into a large one.
				MaxResponseHeaderBytes: maxHeaders,
				MaxConnsPerHost:        config.Concurrent,
				IdleConnTimeout:        config.TTL,
			},
		},
		slots:   make(chan struct{}, config.Concurrent),
		answers: map[string]remembered{},
	}
}

func orElse[T comparable](value, fallback T) T {
	var none T
	if value == none {
		return fallback
	}
	return value
}

// Ask asks about a subject, or remembers what the server said not long ago. With
// anew it asks in any case.
func (c *Client) Ask(ctx context.Context, subject Subject, anew bool) Answer {
	at, err := c.config.URL.of(subject)
	if err != nil {
		return Answer{Unavailable, "The URL of the license server cannot be made for this app"}
	}
	id := at.String()
	if known, ok := c.recall(id); ok && !anew {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return Answer{Unavailable, "The license server has too many questions to answer"}
	}
	// Others may have learned in the meantime that it does not answer.
	if known, ok := c.recall(id); ok && !anew {
		return known
	}
	answer, reached := c.ask(ctx, at)
	if context.Cause(ctx) == context.Canceled { //nolint:errorlint // The caller's own end says nothing about the server.
		return answer
	}
	c.remember(id, answer, reached)
	return answer
}

// ask sends one request. It reports whether the server answered at all.
func (c *Client) ask(ctx context.Context, at *url.URL) (answer Answer, reached bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return Answer{Unavailable, "The URL of the license server cannot be used"}, true
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
		return judge(response.StatusCode), true
	}
}

// judge goes by the status code alone. Being asked to come back later is no
// answer.
func judge(code int) Answer {
	said := fmt.Sprintf("The license server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusOK:
		return Answer{Granted, "The license server granted it"}
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return Answer{Unavailable, said}
	case code >= 400 && code < 500:
		return Answer{Denied, said}
	default:
		return Answer{Unavailable, said}
	}
}

var (
	errForeignRedirect = errors.New("redirect to another host")
	errManyRedirects   = errors.New("too many redirects")
)

// stayWithHost follows redirects within the host only. Elsewhere, whoever
// answers is not who was asked, and the URL is not for them to see.
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

// describe puts a failure into words of our own: those of the network name
// URLs, and some are different each time.
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
		return "The license server cannot be reached, or breaks off"
	}
}

// recall returns the answer that still counts.
func (c *Client) recall(id string) (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	if known, ok := c.answers[id]; ok && now.Before(known.until) {
		return known.answer, true
	}
	return c.why, now.Before(c.pause)
}

func (c *Client) remember(id string, answer Answer, reached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	if !reached {
		c.pause, c.why = now.Add(c.config.Pause), answer
		return
	}
	c.pause = time.Time{}
	if len(c.answers) >= maxAnswers {
		c.makeRoom(now)
	}
	c.answers[id] = remembered{answer: answer, until: now.Add(c.config.TTL)}
}

// makeRoom drops what no longer counts, or, if all of it does, everything: then
// it is asked again.
func (c *Client) makeRoom(now time.Time) {
	for id, known := range c.answers {
		if !now.Before(known.until) {
			delete(c.answers, id)
		}
	}
	if len(c.answers) >= maxAnswers {
		clear(c.answers)
	}
}
