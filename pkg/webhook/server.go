// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/serving"
)

const (
	// maxBody is the maximum size of a review in bytes. A review has the new and the old object.
	// The API server does not store objects above 1.5 MiB.
	maxBody = 3 << 20
	// maxBodies limits the size of all bodies in memory, in bytes. maxBodiesOfAddress limits the
	// bodies from one address.
	maxBodies          = 16 << 20
	maxBodiesOfAddress = 4 << 20
	// maxReviews is the number of bodies that are decoded and reviewed at the same time.
	maxReviews = 16
	// maxConnections limits all connections. maxConnectionsOfAddress limits the connections from
	// one address. An API server opens at most one connection for each change in flight, and by
	// default processes 200 changes at the same time.
	maxConnections          = 600
	maxConnectionsOfAddress = 200
	// maxMessage is the maximum length of an error in an answer and in the log, in bytes. Errors
	// can quote the request.
	maxMessage = 4 << 10
	// headerTimeout, readTimeout and writeTimeout bound parts of a request. The API server waits
	// for 5 s in all.
	headerTimeout = 2 * time.Second
	readTimeout   = 3 * time.Second
	writeTimeout  = 5 * time.Second
	// shutdownTimeout bounds the wait for reviews in flight when the server stops.
	shutdownTimeout = 2 * time.Second
)

var (
	errTooLarge = fmt.Errorf("the AdmissionReview is larger than %d bytes", maxBody)
	errBusy     = errors.New("the webhook has too many reviews at this time: try again")
)

// Certificates is a source of serving certificates.
type Certificates interface {
	// Certificate returns the current certificate with its Leaf. It is called for each connection.
	// The error says why there is no certificate.
	Certificate() (*tls.Certificate, error)
}

// Server serves handlers over HTTPS.
type Server struct {
	listener     net.Listener
	http         *http.Server
	certificates Certificates
	clock        clock.PassiveClock
	bodies       *budget
	reviews      *semaphore.Weighted
}

// Listen binds an address of the form host:port, so that a port conflict is reported at the start.
// Run then serves the handlers, by path.
func Listen(
	ctx context.Context, address string, handlers map[string]Handler, certificates Certificates, clock clock.PassiveClock,
) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener: serving.Limit(listener, maxConnections, maxConnectionsOfAddress), certificates: certificates, clock: clock,
		bodies: newBudget(maxBodies, maxBodiesOfAddress), reviews: semaphore.NewWeighted(maxReviews),
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle("POST "+path, s.serve(handler))
	}
	// HTTP/2 would allow many concurrent requests on one connection.
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           mux,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    2 << 10,
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

// Ready returns an error if there is no currently valid certificate.
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
		review, status, err := s.review(w, r, handler)
		if err != nil {
			message := err.Error()
			message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
			logger.V(1).Info("A webhook could not review a request", "path", r.URL.Path, "err", message)
			http.Error(w, message, status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
}

// review returns the answer to a request, or an error with its HTTP status.
func (s *Server) review(w http.ResponseWriter, r *http.Request, handler Handler) (*admissionv1.AdmissionReview, int, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("the content type must be application/json")
	}
	// A body without a Content-Length counts with the maximum size.
	size := r.ContentLength
	if size < 0 {
		size = maxBody
	}
	if size > maxBody {
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	release, err := s.bodies.take(ctx, serving.AddressOf(r.RemoteAddr), size)
	if err != nil {
		return nil, http.StatusServiceUnavailable, errBusy
	}
	defer release()
	body := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the AdmissionReview: %w", err)
	}
	// A review starts only after its body was read, so a slow caller blocks no other review.
	if err := s.reviews.Acquire(ctx, 1); err != nil {
		return nil, http.StatusServiceUnavailable, errBusy
	}
	defer s.reviews.Release(1)
	return reviewBody(body.Bytes(), handler)
}

// reviewBody returns the answer to a body, or an error with its HTTP status.
func reviewBody(body []byte, handler Handler) (*admissionv1.AdmissionReview, int, error) {
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
