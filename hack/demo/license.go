// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// licensedPath is the license server's path for the app whose license is denied at first. All other licenses are
// granted.
const licensedPath = "/" + tourNamespace + "/licensed"

// licenseServer is a license server on this machine.
type licenseServer struct {
	server  *http.Server
	address string
	agrees  atomic.Bool
	ended   chan error
}

// startLicenses starts the license server, which serves until stop.
func startLicenses(ctx context.Context) (*licenseServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the license server: %w", err)
	}
	l := &licenseServer{address: listener.Addr().String(), ended: make(chan error, 1)}
	l.server = &http.Server{Handler: l, ReadHeaderTimeout: 10 * time.Second}
	go func() { l.ended <- l.server.Serve(listener) }()
	return l, nil
}

// ServeHTTP implements http.Handler.
func (l *licenseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == licensedPath && !l.agrees.Load() {
		w.WriteHeader(http.StatusForbidden)
	}
}

// url returns the value of the operator's flag.
func (l *licenseServer) url() string { return "http://" + l.address + "/{{.Namespace}}/{{.Name}}" }

// grant implements licensor.
func (l *licenseServer) grant(context.Context) (string, error) {
	l.agrees.Store(true)
	return "", nil
}

// stop ends the server and waits for it.
func (l *licenseServer) stop() error {
	err := l.server.Close()
	if ended := <-l.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("stop the license server: %w", err)
	}
	return nil
}
