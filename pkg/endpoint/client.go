// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxBody bounds the body of a response, in bytes. The body is not used.
	maxBody = 64 << 10
	// maxHeaders bounds the headers of a response, in bytes.
	maxHeaders = 64 << 10
	// maxRedirects is the number of redirects that are followed.
	maxRedirects = 3
)

// Config configures a [Client]. TLS is optional.
type Config struct {
	// Server names the server in messages, for example "license server".
	Server string
	// Timeout bounds one request with its redirects.
	Timeout time.Duration
	// Concurrent is the number of concurrent requests. One namespace uses at most half of it.
	Concurrent int
	// IdleTimeout is the time for which an unused connection stays open.
	IdleTimeout time.Duration
	// TLS configures the CAs of the server. The default is the CAs of the system.
	TLS *tls.Config
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	config Config
	slots  *slots
	http   *http.Client
}

// New returns a client. It sends nothing.
func New(config Config) *Client {
	return &Client{
		config: config, slots: newSlots(config.Concurrent),
		http: &http.Client{
			CheckRedirect: checkRedirect,
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				TLSClientConfig:        config.TLS,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true, // A small compressed body could expand to a large one.
				MaxResponseHeaderBytes: maxHeaders,
				MaxConnsPerHost:        config.Concurrent,
				IdleConnTimeout:        config.IdleTimeout,
			},
		},
	}
}

// RequestError is the error of a request without a usable response.
type RequestError struct {
	// Message explains the failure in one sentence without secrets.
	Message string
	// Reached reports whether the server answered.
	Reached bool
}

func (e *RequestError) Error() string { return e.Message }

// ErrBusy means that a request was not sent, because too many requests were in flight.
var ErrBusy = errors.New("too many requests are in flight")

// Send sends one request without a body and returns the status code of the response. The
// request is on behalf of an object of the namespace. If too many requests are in flight, it
// first waits for Config.Timeout at most. The error is a [*RequestError], or ErrBusy.
func (c *Client) Send(ctx context.Context, namespace, method string, at *url.URL) (int, error) {
	if err := c.acquire(ctx, namespace); err != nil {
		return 0, err
	}
	defer c.slots.release(namespace)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), http.NoBody)
	if err != nil {
		return 0, &RequestError{"The URL of the " + c.config.Server + " is not valid for a request", true}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, c.failure(err)
	}
	defer response.Body.Close()
	switch read, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxBody+1)); {
	case err != nil:
		return 0, c.failure(err)
	case read > maxBody:
		return 0, &RequestError{fmt.Sprintf("The answer of the %s is larger than %d KiB", c.config.Server, maxBody>>10), true}
	default:
		return response.StatusCode, nil
	}
}

// acquire waits for a slot.
func (c *Client) acquire(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	if c.slots.acquire(ctx, namespace) != nil {
		return ErrBusy
	}
	return nil
}

// Answered describes a response by its status code.
func (c *Client) Answered(code int) string {
	return fmt.Sprintf("The %s answered %d %s", c.config.Server, code, http.StatusText(code))
}

var (
	errForeignRedirect = errors.New("redirect to another host")
	errMethodRedirect  = errors.New("redirect to another method")
	errManyRedirects   = errors.New("too many redirects")
)

// checkRedirect refuses redirects to another host: it must not answer for the server, and
// must not receive the URL. It also refuses redirects to another method, because the
// response to a GET says nothing about a DELETE.
func checkRedirect(request *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case request.URL.Scheme != first.URL.Scheme || request.URL.Host != first.URL.Host:
		return errForeignRedirect
	case request.Method != first.Method:
		return errMethodRedirect
	case len(via) > maxRedirects:
		return errManyRedirects
	default:
		return nil
	}
}

// failure returns the failure for the error of a request. It does not quote err, because
// network errors contain the URL and differ between attempts.
func (c *Client) failure(err error) *RequestError {
	var (
		timeout     net.Error
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
	)
	server := "The " + c.config.Server
	switch {
	case errors.Is(err, errForeignRedirect):
		return &RequestError{server + " redirects to another host", true}
	case errors.Is(err, errMethodRedirect):
		return &RequestError{server + " redirects to another method: use the status code 307 or 308", true}
	case errors.Is(err, errManyRedirects):
		return &RequestError{server + " redirects too often", true}
	case errors.As(err, &name):
		return &RequestError{"The name of the " + c.config.Server + " cannot be resolved", false}
	case errors.As(err, &certificate):
		return &RequestError{"The certificate of the " + c.config.Server + " cannot be verified", false}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &RequestError{fmt.Sprintf("%s did not answer within %s", server, c.config.Timeout), false}
	default:
		return &RequestError{"The connection to the " + c.config.Server + " failed", false}
	}
}
