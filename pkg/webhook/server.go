// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// maxBody is the size of the largest review in bytes. A review has the object and its predecessor. The API server does
	// not store objects above 1.5 MiB.
	maxBody = 4 << 20
	// maxReviews is the number of reviews at the same time. It bounds memory together with maxBody.
	maxReviews = 16
	// shutdownTimeout bounds the wait for reviews in flight when the server stops.
	shutdownTimeout = 2 * time.Second
)

// Certificates is a source of serving certificates.
type Certificates interface {
	// Certificate returns the current certificate with its Leaf. It is called for each connection. The error says why there
	// is no certificate.
	Certificate() (*tls.Certificate, error)
}

// Server serves handlers over HTTPS.
type Server struct {
	listener     net.Listener
	http         *http.Server
	certificates Certificates
	clock        clock.PassiveClock
	slots        chan struct{}
}

// Listen binds an address of the form host:port, so that a port conflict is reported at the start. Run then serves the
// handlers, which are given by their paths.
func Listen(
	ctx context.Context, address string, handlers map[string]Handler, certificates Certificates, clock clock.PassiveClock,
) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, certificates: certificates, clock: clock, slots: make(chan struct{}, maxReviews)}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle("POST "+path, s.serve(handler))
	}
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return certificates.Certificate()
			},
		},
	}
	return s, nil
}

// Address is the address on which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves requests until ctx ends. It then waits for the reviews in flight.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	s.http.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	klog.FromContext(ctx).Info("Serving webhooks", "address", s.listener.Addr().String())
	go func() { failed <- s.http.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		// A slow client must not delay the exit.
		klog.FromContext(ctx).V(2).Info("Closing connections that are still busy", "server", "webhook", "err", err)
		_ = s.http.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	return nil
}

// Ready returns why the server cannot serve: there is no certificate, or none that is valid now.
func (s *Server) Ready() error {
	certificate, err := s.certificates.Certificate()
	if err != nil {
		return err
	}
	now := s.clock.Now()
	if leaf := certificate.Leaf; leaf == nil || now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return errors.New("the serving certificate is not valid at this time")
	}
	return nil
}

// serve returns the HTTP handler of a Handler.
func (s *Server) serve(handler Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		defer func() {
			if cause := recover(); cause != nil {
				logger.Error(fmt.Errorf("panic: %v", cause), "A webhook panicked", "path", r.URL.Path)
				http.Error(w, "the webhook panicked; see the log of the operator", http.StatusInternalServerError)
			}
		}()
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-r.Context().Done():
			return
		}
		review, status, err := s.review(w, r, handler)
		if err != nil {
			logger.V(1).Info("A webhook could not review a request", "path", r.URL.Path, "err", err)
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
}

// review returns the answer to a request; or else an error and its HTTP status.
func (s *Server) review(w http.ResponseWriter, r *http.Request, handler Handler) (*admissionv1.AdmissionReview, int, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("the content type must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the AdmissionReview is larger than %d bytes", maxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the AdmissionReview: %w", err)
	}
	request, err := decode(body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	response, err := handler(request)
	if err != nil {
		return nil, http.StatusUnprocessableEntity, err
	}
	review, err := answer(request, response)
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return review, http.StatusOK, nil
}
