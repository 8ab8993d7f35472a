// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/serving"
)

const (
	// grantedTTL and refusedTTL are the lifetimes of cached answers. A revoked token can read
	// metrics for at most grantedTTL.
	grantedTTL = time.Minute
	refusedTTL = 10 * time.Second
	// maxGranted and maxRefused bound the answers in memory.
	maxGranted = 100
	maxRefused = 1000
	// maxToken is the maximum length of a token, in bytes. Tokens of service accounts have about 1
	// KiB.
	maxToken = 16 << 10
	// reviewRate and reviewBurst limit the total reviews of new tokens from untrusted addresses.
	// reservedRate and reservedBurst limit the total for trusted addresses, which got the metrics
	// before.
	reviewRate, reviewBurst     = 10, 20
	reservedRate, reservedBurst = 2, 10
	// addressRate and addressBurst limit one address. A monitoring system renews its token at
	// intervals of minutes or hours. The rate of an address is a hundredth of the total, so that
	// the pods of one tenant cannot use up the total.
	addressRate, addressBurst = 0.1, 4
	// trustTTL is the time for which an address that got the metrics is trusted.
	trustTTL = time.Hour
	// maxAddresses bounds the addresses with their own limit. maxTrusted bounds the trusted
	// addresses.
	maxAddresses = 1000
	maxTrusted   = 100
	// reviewTimeout bounds the two requests of one review.
	reviewTimeout = 5 * time.Second
	// maxSecureHeader is the maximum size of a request header, in bytes.
	maxSecureHeader = maxToken + 4<<10
)

// certificateSource is a source of serving certificates. It is called for each connection.
type certificateSource interface {
	Certificate() (*tls.Certificate, error)
}

// metricsCertificates returns the source of the certificate of the metrics endpoint.
func metricsCertificates(cfg config) (certificateSource, error) {
	if cfg.MetricsCertDir == "" {
		return serving.NewSelfSigned(clock.RealClock{}, "localhost", cfg.Name+"-metrics", cfg.Name+"-metrics."+cfg.LeaderElection.ResourceNamespace+".svc"), nil
	}
	files, err := serving.NewFiles(cfg.MetricsCertDir, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("--metrics-cert-dir=%s: %w", cfg.MetricsCertDir, err)
	}
	return files, nil
}

// secure makes the server serve HTTPS. HTTP/2 is off, because one connection would have many
// requests at a time.
func (s *server) secure(certificates certificateSource) {
	s.http.MaxHeaderBytes = maxSecureHeader
	s.http.Protocols = &http.Protocols{}
	s.http.Protocols.SetHTTP1(true)
	s.http.TLSConfig = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificates.Certificate() },
	}
}

// authorizer accepts requests whose bearer token is valid and whose user may get the metrics. It sends a
// TokenReview and a SubjectAccessReview to the API server, and caches the answers for a short time.
//
// Any client that reaches the port can send tokens. Reviews are therefore limited in total and for
// each address. A token that was granted before is not subject to these limits. A new token from an
// address that got the metrics has reserved reviews, so that invalid tokens from other addresses do
// not block a monitoring system whose token is renewed.
type authorizer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	clock  clock.PassiveClock
	flight singleflight.Group

	mu sync.Mutex
	// granted has the last granted tokens, even after grantedTTL. refused has the refused tokens.
	granted, refused map[tokenDigest]decision
	// all limits untrusted addresses, and reserved limits trusted addresses.
	all, reserved *rate.Limiter
	addresses     map[netip.Addr]*rate.Limiter
	trusted       map[netip.Addr]*trust
}

// trust is the record of an address that got the metrics.
type trust struct {
	until   time.Time
	reviews *rate.Limiter
}

// tokenDigest identifies a token without keeping the token in memory.
type tokenDigest [sha256.Size]byte

// decision is the HTTP status for a token.
type decision struct {
	status int
	until  time.Time
}

// newAuthorizer returns an authorizer that asks the API server of server.
func newAuthorizer(server *rest.Config, clock clock.PassiveClock) (*authorizer, error) {
	config := rest.CopyConfig(server)
	config.Timeout = reviewTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client of token reviews: %w", err)
	}
	return authorizerWith(client, clock), nil
}

func authorizerWith(client kubernetes.Interface, clock clock.PassiveClock) *authorizer {
	return &authorizer{
		tokens: client.AuthenticationV1().TokenReviews(), access: client.AuthorizationV1().SubjectAccessReviews(), clock: clock,
		granted: map[tokenDigest]decision{}, refused: map[tokenDigest]decision{},
		all: rate.NewLimiter(reviewRate, reviewBurst), addresses: map[netip.Addr]*rate.Limiter{},
		reserved: rate.NewLimiter(reservedRate, reservedBurst), trusted: map[netip.Addr]*trust{},
	}
}

// protect returns a handler that serves the permitted requests. It closes the connection of any
// other request, so that refused clients do not use up connections.
func (a *authorizer) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := a.decide(r)
		if status == http.StatusOK {
			a.trust(serving.AddressOf(r.RemoteAddr))
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		switch status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send a valid bearer token", status)
		case http.StatusForbidden:
			http.Error(w, "the user of the token may not get "+metricsPath, status)
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many requests with new tokens: try again later", status)
		default:
			http.Error(w, "the token cannot be reviewed now: try again later", status)
		}
	})
}

// decide returns the HTTP status for a request.
func (a *authorizer) decide(r *http.Request) int {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	digest := tokenDigest(sha256.Sum256([]byte(token)))
	status, trusted := a.known(digest)
	if status != 0 {
		return status
	}
	if !trusted && !a.allow(serving.AddressOf(r.RemoteAddr)) {
		return http.StatusTooManyRequests
	}
	// All requests with this token share the review, so it must outlive the first request.
	ctx := context.WithoutCancel(r.Context())
	reviewed, _, _ := a.flight.Do(string(digest[:]), func() (any, error) {
		status, err := a.review(ctx, token)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A request for metrics cannot be authorized")
			return http.StatusServiceUnavailable, nil
		}
		a.keep(digest, status)
		return status, nil
	})
	status, ok := reviewed.(int)
	if !ok {
		return http.StatusServiceUnavailable
	}
	return status
}

// known returns the status of a token, or 0. It reports whether the token was granted before.
func (a *authorizer) known(digest tokenDigest) (status int, trusted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	granted, trusted := a.granted[digest]
	if trusted && now.Before(granted.until) {
		return granted.status, true
	}
	if refused, ok := a.refused[digest]; ok && now.Before(refused.until) {
		return refused.status, trusted
	}
	return 0, trusted
}

// keep records the status of a token. When a map is full, expired answers are dropped. If the map
// is still full, all answers are dropped.
func (a *authorizer) keep(digest tokenDigest, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if status == http.StatusOK {
		delete(a.refused, digest)
		makeRoom(a.granted, maxGranted, now)
		a.granted[digest] = decision{status, now.Add(grantedTTL)}
		return
	}
	delete(a.granted, digest)
	makeRoom(a.refused, maxRefused, now)
	a.refused[digest] = decision{status, now.Add(refusedTTL)}
}

func makeRoom(decisions map[tokenDigest]decision, size int, now time.Time) {
	if len(decisions) < size {
		return
	}
	for digest, kept := range decisions {
		if !now.Before(kept.until) {
			delete(decisions, digest)
		}
	}
	if len(decisions) >= size {
		clear(decisions)
	}
}

// trust records that an address got the metrics. Beyond maxTrusted, the address stays untrusted.
func (a *authorizer) trust(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if known, ok := a.trusted[address]; ok {
		known.until = now.Add(trustTTL)
		return
	}
	if len(a.trusted) >= maxTrusted {
		maps.DeleteFunc(a.trusted, func(_ netip.Addr, other *trust) bool { return !now.Before(other.until) })
	}
	if len(a.trusted) < maxTrusted {
		a.trusted[address] = &trust{until: now.Add(trustTTL), reviews: rate.NewLimiter(addressRate, addressBurst)}
	}
}

// allow reports whether one more unknown token of an address may be reviewed now.
func (a *authorizer) allow(address netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if known, ok := a.trusted[address]; ok && now.Before(known.until) {
		return take(known.reviews, a.reserved, now)
	}
	own, ok := a.addresses[address]
	if !ok {
		if len(a.addresses) >= maxAddresses {
			// An address with all its reviews has the same limits as a new one.
			maps.DeleteFunc(a.addresses, func(_ netip.Addr, other *rate.Limiter) bool { return other.TokensAt(now) >= addressBurst })
		}
		if len(a.addresses) >= maxAddresses {
			return false
		}
		own = rate.NewLimiter(addressRate, addressBurst)
		a.addresses[address] = own
	}
	return take(own, a.all, now)
}

// take takes one review from both limiters, or from neither. The caller holds the lock of both.
func take(own, all *rate.Limiter, now time.Time) bool {
	return own.TokensAt(now) >= 1 && all.AllowN(now, 1) && own.AllowN(now, 1)
}

// review asks the API server for the user of a token, and whether this user may get the metrics.
func (a *authorizer) review(ctx context.Context, token string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	authentication, err := a.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the token: %w", err)
	}
	if !authentication.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := authentication.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	authorization, err := a.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: metricsPath, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of the token's user: %w", err)
	}
	if !authorization.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
