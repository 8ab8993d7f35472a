// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanup

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/endpoint"
)

const (
	// DefaultTimeout is the default of Config.Timeout.
	DefaultTimeout = 10 * time.Second
	// idleTimeout is the time for which an unused connection stays open.
	idleTimeout = time.Minute
)

// Config configures a [Hook]. URL is required.
type Config struct {
	// URL is a template, see [ParseURL].
	URL *endpoint.Template
	// Timeout bounds one call with its redirects. The default is 10 s.
	Timeout time.Duration
	// TLS configures the CAs of the server. The default is the CAs of the system.
	TLS *tls.Config
}

// Hook calls a cleanup server. It is safe for concurrent use.
type Hook struct {
	url    *endpoint.Template
	server *endpoint.Client
}

// ParseURL parses the URL of a cleanup server, a template that may use .Namespace and .Name,
// see [endpoint.ParseTemplate].
func ParseURL(text string) (*endpoint.Template, error) {
	return endpoint.ParseTemplate(text, "Namespace", "Name")
}

// New returns a hook. It sends nothing.
func New(config Config) *Hook {
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	return &Hook{url: config.URL, server: endpoint.New(endpoint.Config{
		Server: "cleanup server", Timeout: config.Timeout, Concurrent: controller.MaxWaiting, IdleTimeout: idleTimeout, TLS: config.TLS,
	})}
}

// Call asks the server to clean up after an object, and describes the answer. It returns an
// error unless the server answers 2xx, or 404, which means that there is nothing to clean up.
// The message of an error has no secrets. Equal failures have equal messages.
//
// A pass that calls Call frees its worker meanwhile, see [controller.ReleaseWorker].
func (h *Hook) Call(ctx context.Context, object cache.ObjectName) (answer string, err error) {
	at, err := h.url.URL(map[string]string{"Namespace": object.Namespace, "Name": object.Name})
	if err != nil {
		return "", &endpoint.RequestError{Message: "The URL template of the cleanup server yields no valid URL for this object"}
	}
	reclaim, err := controller.ReleaseWorker(ctx)
	if err != nil {
		return "", err
	}
	defer reclaim()
	code, err := h.server.Send(ctx, object.Namespace, http.MethodDelete, at)
	if err != nil {
		return "", err
	}
	answer = h.server.Answered(code)
	if code/100 != 2 && code != http.StatusNotFound {
		return "", &endpoint.RequestError{Message: answer, Reached: true}
	}
	return answer, nil
}
