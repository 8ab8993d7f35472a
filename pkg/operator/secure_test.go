// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/serving"
)

// protected is an authorizer in front of a handler, with a fake API server. The tokens "<user>-token" and
// "renewed:<user>-token" belong to a user. The user "prometheus" may get the metrics.
type protected struct {
	t          *testing.T
	authorizer *authorizer
	handler    http.Handler
	clock      *clocktesting.FakePassiveClock
	// reviews and accesses count the requests.
	reviews, accesses atomic.Int32
	// broken is the resource whose requests fail.
	broken string
	asked  authorizationv1.SubjectAccessReviewSpec
}

func newProtected(t *testing.T) *protected {
	t.Helper()
	client := kubefake.NewClientset()
	g := &protected{t: t, clock: clocktesting.NewFakePassiveClock(time.Now())}
	g.authorizer = authorizerWith(client, g.clock)
	g.handler = g.authorizer.protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetResource().Resource == g.broken {
			return true, nil, errors.New("no answer")
		}
		switch object := action.(clienttesting.CreateAction).GetObject().(type) {
		case *authenticationv1.TokenReview:
			g.reviews.Add(1)
			user, ok := strings.CutSuffix(strings.TrimPrefix(object.Spec.Token, "renewed:"), "-token")
			object.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{
				Username: user, UID: "1", Groups: []string{"monitoring"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"a"}},
			}}
			return true, object, nil
		case *authorizationv1.SubjectAccessReview:
			g.accesses.Add(1)
			g.asked = object.Spec
			object.Status.Allowed = object.Spec.User == "prometheus"
			return true, object, nil
		}
		return false, nil, nil
	})
	return g
}

// get sends a request with an Authorization header from an address, and returns the answer.
func (g *protected) get(authorization, address string) *httptest.ResponseRecorder {
	g.t.Helper()
	request := httptest.NewRequestWithContext(g.t.Context(), http.MethodGet, "/metrics", nil)
	request.RemoteAddr = address + ":1234"
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.handler.ServeHTTP(answer, request)
	return answer
}

// expects compares the status of a request and the number of token reviews so far.
func (g *protected) expects(authorization string, status int, reviews int32) {
	g.t.Helper()
	answer := g.get(authorization, "10.0.0.1")
	if answer.Code != status || g.reviews.Load() != reviews {
		g.t.Errorf("%q gets %d after %d reviews, want %d after %d", authorization, answer.Code, g.reviews.Load(), status, reviews)
	}
	if (answer.Body.String() == "metrics") != (status == http.StatusOK) {
		g.t.Errorf("%q gets the body %q", authorization, answer.Body)
	}
	if (answer.Header().Get("WWW-Authenticate") != "") != (status == http.StatusUnauthorized) {
		g.t.Errorf("%q gets WWW-Authenticate %q", authorization, answer.Header().Get("WWW-Authenticate"))
	}
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name, authorization, broken string
		status                      int
		reviews                     int32
	}{
		{name: "the right", authorization: "Bearer prometheus-token", status: 200, reviews: 1},
		{name: "scheme in lower case", authorization: "bearer prometheus-token", status: 200, reviews: 1},
		{name: "no right", authorization: "Bearer guest-token", status: 403, reviews: 1},
		{name: "an invalid token", authorization: "Bearer garbage", status: 401, reviews: 1},
		{name: "no header", status: 401},
		{name: "no token", authorization: "Bearer ", status: 401},
		{name: "another scheme", authorization: "Basic cHJvbWV0aGV1czp0b2tlbg==", status: 401},
		{name: "a token that is too long", authorization: "Bearer " + strings.Repeat("a", maxToken+1), status: 401},
		{name: "no token reviews", authorization: "Bearer prometheus-token", broken: "tokenreviews", status: 503},
		{name: "no access reviews", authorization: "Bearer prometheus-token", broken: "subjectaccessreviews", status: 503, reviews: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newProtected(t)
			g.broken = test.broken

			g.expects(test.authorization, test.status, test.reviews)
		})
	}
}

func TestGuardReviewsUserOfToken(t *testing.T) {
	g := newProtected(t)

	g.expects("Bearer prometheus-token", 200, 1)

	asked := g.asked
	if asked.User != "prometheus" || asked.UID != "1" || !slices.Equal(asked.Groups, []string{"monitoring"}) || asked.Extra["pod"][0] != "a" ||
		*asked.NonResourceAttributes != (authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}) {
		t.Errorf("the review asks for %+v", asked)
	}
}

func TestGuardKeepsAnswers(t *testing.T) {
	g := newProtected(t)
	after := func(d time.Duration) { g.clock.SetTime(g.clock.Now().Add(d)) }
	g.expects("Bearer prometheus-token", 200, 1)
	g.expects("Bearer guest-token", 403, 2)

	g.expects("Bearer prometheus-token", 200, 2)
	g.expects("Bearer guest-token", 403, 2)
	after(refusedTTL)
	g.expects("Bearer prometheus-token", 200, 2)
	g.expects("Bearer guest-token", 403, 3)
	after(grantedTTL)
	g.expects("Bearer prometheus-token", 200, 4)
	g.broken = "tokenreviews"
	after(grantedTTL)
	g.expects("Bearer prometheus-token", 503, 4)
	g.broken = ""
	g.expects("Bearer prometheus-token", 200, 5)
}

// TestGarbageTokensAreFewReviews: tokens of an attacker cause few requests, and block no other
// client.
func TestGarbageTokensAreFewReviews(t *testing.T) {
	g := newProtected(t)
	if answer := g.get("Bearer prometheus-token", "10.0.0.9"); answer.Code != http.StatusOK || answer.Header().Get("Connection") != "" {
		t.Fatalf("status %d, headers %v", answer.Code, answer.Header())
	}

	statuses := map[int]int{}
	for i := range 1000 {
		answer := g.get(fmt.Sprintf("Bearer garbage-%d", i), "10.0.0.1")
		statuses[answer.Code]++
		if answer.Code == http.StatusTooManyRequests && answer.Header().Get("Retry-After") == "" {
			t.Fatal("no Retry-After")
		}
		if answer.Header().Get("Connection") != "close" {
			t.Fatal("a refused client keeps its connection")
		}
	}

	if statuses[401] != addressBurst || statuses[429] != 1000-addressBurst || g.reviews.Load() != 1+addressBurst {
		t.Errorf("statuses are %v after %d reviews", statuses, g.reviews.Load())
	}
	if answer := g.get("Bearer guest-token", "10.0.0.2"); answer.Code != http.StatusForbidden {
		t.Errorf("another address gets %d", answer.Code)
	}
	for i := range 100 {
		g.get(fmt.Sprintf("Bearer other-%d", i), fmt.Sprintf("10.0.1.%d", i))
	}
	if reviews := g.reviews.Load(); reviews > reviewBurst+1 {
		t.Errorf("%d reviews of all addresses", reviews)
	}
	g.clock.SetTime(g.clock.Now().Add(grantedTTL))
	if answer := g.get("Bearer prometheus-token", "10.0.0.1"); answer.Code != http.StatusOK {
		t.Errorf("a token that was granted before gets %d", answer.Code)
	}
}

// TestNewTokenIsReviewedDuringFlood: invalid tokens do not block a monitoring system whose token is
// renewed.
func TestNewTokenIsReviewedDuringFlood(t *testing.T) {
	tests := []struct {
		name string
		// scraped means that the monitoring system got the metrics before the flood.
		scraped   bool
		addresses int
	}{
		{"first scrape, and five pods", false, 5},
		{"later scrape, and five pods", true, 5},
		{"later scrape, and a thousand pods", true, 1000},
		{"later scrape, and more pods than are counted", true, 2 * maxAddresses},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newProtected(t)
			if test.scraped {
				g.get("Bearer prometheus-token", "10.0.0.9")
			}
			for i := range 8000 {
				address := i % test.addresses
				g.get(fmt.Sprintf("Bearer garbage-%d", i), fmt.Sprintf("10.1.%d.%d", address/250, address%250))
				g.clock.SetTime(g.clock.Now().Add(5 * time.Millisecond))
			}

			answer := g.get("Bearer renewed:prometheus-token", "10.0.0.9")

			if answer.Code != http.StatusOK {
				t.Errorf("status %d", answer.Code)
			}
		})
	}
}

// TestRefusedReviewDoesNotCount: a review that the total limit refuses does not count for the
// address.
func TestRefusedReviewDoesNotCount(t *testing.T) {
	g := newProtected(t)
	for i := range 2 * reviewBurst {
		g.get(fmt.Sprintf("Bearer garbage-%d", i), fmt.Sprintf("10.0.1.%d", i))
	}
	for i := range 2 * addressBurst {
		if answer := g.get(fmt.Sprintf("Bearer early-%d", i), "10.0.0.1"); answer.Code != http.StatusTooManyRequests {
			t.Fatalf("status %d while the total is used up", answer.Code)
		}
	}
	g.clock.SetTime(g.clock.Now().Add(time.Second))

	for i := range addressBurst {
		if answer := g.get(fmt.Sprintf("Bearer late-%d", i), "10.0.0.1"); answer.Code != http.StatusUnauthorized {
			t.Errorf("review %d: status %d", i, answer.Code)
		}
	}
}

func TestGuardIsBounded(t *testing.T) {
	g := newProtected(t)

	for i := range 3 * maxRefused {
		g.get(fmt.Sprintf("Bearer garbage-%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		g.clock.SetTime(g.clock.Now().Add(time.Second / reviewRate))
	}
	for i := range 3 * maxTrusted {
		g.get("Bearer prometheus-token", fmt.Sprintf("10.2.%d.%d", i/250, i%250))
	}
	for i := range 3 * maxGranted {
		g.authorizer.keep(tokenDigest{byte(i), byte(i >> 8)}, http.StatusOK)
	}

	if len(g.authorizer.refused) > maxRefused || len(g.authorizer.granted) > maxGranted || len(g.authorizer.addresses) > maxAddresses ||
		len(g.authorizer.trusted) != maxTrusted {
		t.Errorf("%d refused, %d granted, %d addresses, %d trusted",
			len(g.authorizer.refused), len(g.authorizer.granted), len(g.authorizer.addresses), len(g.authorizer.trusted))
	}
}

func TestSecureMetricsUseTLS(t *testing.T) {
	g := newProtected(t)
	metrics := g.authorizer.protect(metricsHandler(prometheus.NewRegistry()))
	server, err := listen(t.Context(), metricsServer, "--metrics-bind-address", "127.0.0.1:0", metrics)
	if err != nil {
		t.Fatal(err)
	}
	server.secure(serving.NewSelfSigned(clock.RealClock{}, "localhost"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.run(ctx) }()
	address := server.listener.Addr().String()

	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version},
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer prometheus-token")
		response, err := client.Do(request)
		if (err == nil) != works {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err != nil {
			continue
		}
		if response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
			t.Errorf("%s: %s %s", tls.VersionName(version), response.Proto, response.Status)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
