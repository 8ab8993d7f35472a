// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/controller"
)

const secret = "hunter2"

var app = Subject{Namespace: "shop", Name: "web", Image: "registry.example.com:5000/team/web:v1@sha256:0"}

// clientOf returns a client of server, with a secret in its URL.
func clientOf(t *testing.T, server *httptest.Server, change ...func(*Config)) (*Client, *clocktesting.FakeClock) {
	t.Helper()
	at, err := ParseURL(server.URL + "/{{.Namespace}}/{{.Name}}?image={{.Image}}&token=" + secret)
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	config := Config{URL: at, Clock: clock, Timeout: 2 * time.Second}
	for _, c := range change {
		c(&config)
	}
	return New(config), clock
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte("the body says " + secret))
	}
}

func TestAnswers(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host got a request") })
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	quick := func(c *Config) { c.Timeout = 100 * time.Millisecond }
	tests := []struct {
		name    string
		handler http.HandlerFunc
		change  func(*Config)
		want    Verdict
		message string
	}{
		{"200", answers(200), nil, Granted, "granted"},
		{"204", answers(204), nil, Unavailable, "answered 204 No Content"},
		{"403", answers(403), nil, Denied, "answered 403 Forbidden"},
		{"404", answers(404), nil, Denied, "answered 404 Not Found"},
		{"429", answers(429), nil, Unavailable, "answered 429 Too Many Requests"},
		{"500", answers(500), nil, Unavailable, "answered 500 Internal Server Error"},
		{"unassigned status code", answers(599), nil, Unavailable, "answered 599"},
		{"redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, nil, Unavailable, "redirects to another host"},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, nil, Unavailable, "redirects too often"},
		{"redirect within the host", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/ok" {
				http.Redirect(w, r, "/ok", http.StatusFound)
			}
		}, nil, Granted, "granted"},
		{"endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, nil, Unavailable, "larger than 64 KiB"},
		{"headers over the limit", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Noise", strings.Repeat("x", 1<<20))
		}, nil, Unavailable, "The connection to the license server failed"},
		{"no response", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, quick, Unavailable, "did not answer within 100ms"},
		{"no body after the headers", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, quick, Unavailable, "did not answer within 100ms"},
		{"closed connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, Unavailable, "The connection to the license server failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*Config) {}
			}
			client, _ := clientOf(t, serve(t, test.handler), test.change)
			got := client.Ask(t.Context(), app, false)
			if got.Verdict != test.want || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %d %q, want %d with %q", got.Verdict, got.Message, test.want, test.message)
			}
			if strings.Contains(got.Message, secret) || strings.Contains(got.Message, "127.0.0.1") {
				t.Errorf("the message quotes the response or the URL: %q", got.Message)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	var asked atomic.Value
	client, _ := clientOf(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.URL.Path + " " + r.URL.Query().Get("image") + " " + r.URL.Query().Get("token"))
	}))
	client.Ask(t.Context(), app, false)
	if want := "GET /shop/web " + app.Image + " " + secret; asked.Load() != want {
		t.Errorf("request is %v, want %s", asked.Load(), want)
	}
}

func TestPauseAfterFailedConnection(t *testing.T) {
	server := serve(t, answers(200))
	client, clock := clientOf(t, server)
	server.Close()
	if got := client.Ask(t.Context(), app, false); got.Verdict != Unavailable || !strings.Contains(got.Message, "connection to the license server failed") {
		t.Errorf("got %+v", got)
	}
	// The pause applies to all subjects.
	if got, ok := client.cached("another", false); !ok || got.Verdict != Unavailable {
		t.Errorf("got %+v", got)
	}
	clock.Step(DefaultPause)
	if _, ok := client.cached("another", false); ok {
		t.Error("the pause has not ended")
	}
}

func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewTLSServer(answers(200))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	client, _ := clientOf(t, server)
	if got := client.Ask(t.Context(), app, false); got.Verdict != Unavailable || !strings.Contains(got.Message, "certificate") {
		t.Errorf("got %+v", got)
	}
	client, _ = clientOf(t, server, func(c *Config) {
		c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
	})
	if got := client.Ask(t.Context(), app, false); got.Verdict != Granted {
		t.Errorf("got %+v", got)
	}
}

func TestAnswersAreCached(t *testing.T) {
	var asked atomic.Int32
	client, clock := clientOf(t, serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	ask := func(subject Subject, refresh bool, want int32) {
		t.Helper()
		client.Ask(t.Context(), subject, refresh)
		if got := asked.Load(); got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	}
	ask(app, false, 1)
	ask(app, false, 1)
	ask(app, true, 1)
	clock.Step(DefaultFresh)
	ask(app, false, 1)
	ask(app, true, 2)
	ask(Subject{Namespace: "shop", Name: "other"}, false, 3)
	clock.Step(DefaultTTL)
	ask(app, false, 4)
}

func TestCacheLimits(t *testing.T) {
	client, _ := clientOf(t, serve(t, answers(200)))
	for i := range 3 * maxAnswers {
		client.cache(string(rune(i)), "shop", Answer{}, answered)
	}
	if got := client.answers.Len(); got > maxAnswers {
		t.Errorf("%d answers are cached, want at most %d", got, maxAnswers)
	}
}

func TestConcurrentRequestsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	entered, release := make(chan struct{}, 100), make(chan struct{})
	client, _ := clientOf(t, serve(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		entered <- struct{}{}
		<-release
		now.Add(-1)
	}), func(c *Config) { c.Concurrent, c.Timeout = 2, 10*time.Second })
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() { client.Ask(t.Context(), Subject{Namespace: string(rune('a' + i))}, false) })
	}
	<-entered
	<-entered
	close(release)
	all.Wait()
	if got := most.Load(); got != 2 {
		t.Errorf("%d requests at a time, want 2", got)
	}
}

// TestRefreshWaitsAfterDenial: a user who asks again after a denial gets a new answer, and asks
// the server once in five seconds at most.
func TestRefreshWaitsAfterDenial(t *testing.T) {
	var asked, code atomic.Int32
	code.Store(http.StatusForbidden)
	client, clock := clientOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(code.Load()))
	}))
	if got := client.Ask(t.Context(), app, false); got.Verdict != Denied {
		t.Fatalf("got %+v", got)
	}
	code.Store(http.StatusOK)
	clock.Step(time.Second)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got := client.Ask(t.Context(), app, true); got.Verdict != Granted {
				t.Errorf("got %+v", got)
			}
		})
	}
	for clock.Waiters() < 5 {
		runtime.Gosched()
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("%d requests before the time has passed, want 1", got)
	}
	clock.Step(DefaultFresh - time.Second)
	all.Wait()
	if got := asked.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

// TestRefreshKeepsPause: an unreachable server gets no request for each object that a user
// requests.
func TestRefreshKeepsPause(t *testing.T) {
	client, clock := clientOf(t, serve(t, answers(200)))
	client.cache("any", "shop", Answer{}, unreached)
	if _, ok := client.cached("another", true); !ok {
		t.Error("the refresh sends a request")
	}
	clock.Step(DefaultFresh)
	if _, ok := client.cached("another", true); ok {
		t.Error("the refresh sends no request")
	}
}

// TestEqualQuestionsShareRequest: apps whose URLs are equal cause one request, and so does one
// app that asks repeatedly.
func TestEqualQuestionsShareRequest(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	client, _ := clientOf(t, serve(t, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	}))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := client.Ask(t.Context(), app, true); got.Verdict != Granted {
				t.Errorf("got %+v", got)
			}
		})
	}
	close(release)
	all.Wait()
	if got := asked.Load(); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

// TestCanceledQuestionIsAskedAgain: if a caller cancels its request, other callers do not get its
// answer.
func TestCanceledQuestionIsAskedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan struct{})
	var asked atomic.Int32
	client, _ := clientOf(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			close(first)
			<-r.Context().Done()
		}
	}))
	var all sync.WaitGroup
	all.Go(func() { client.Ask(ctx, app, false) })
	<-first
	all.Go(func() {
		if got := client.Ask(t.Context(), app, false); got.Verdict != Granted {
			t.Errorf("got %+v", got)
		}
	})
	cancel()
	all.Wait()
	if got := asked.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

func TestCanceledCallerStartsNoPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, _ := clientOf(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	client.Ask(ctx, app, false)
	if _, ok := client.cached("anything", false); ok {
		t.Error("the canceled request started a pause")
	}
}

func TestParseURL(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"https", "https://license.example.com/{{.Namespace}}/{{.Name}}?image={{.Image}}", ""},
		{"no fields", "https://license.example.com/", ""},
		{"loopback", "http://127.0.0.1:8080/{{.Name}}", ""},
		{"loopback by name", "http://localhost/{{.Name}}", ""},
		{"IPv6 loopback", "http://[::1]:8080/", ""},
		{"plain http", "http://license.example.com/" + secret, "must begin with https://"},
		{"plain http to a name like loopback", "http://localhost.example.com/", "must begin with https://"},
		{"another scheme", "ftp://license.example.com/", "must begin with https://"},
		{"no host", "license", "is not a URL with a scheme and a host"},
		{"field in the host", "https://{{.Namespace}}.example.com/", "must have the same host"},
		{"field in the password", "https://user:{{.Name}}@example.com/", "must have the same host"},
		{"field in the scheme", "{{if .Name}}https{{else}}http{{end}}://127.0.0.1/", "must have the same host"},
		{"unknown field", "https://license.example.com/{{.Message}}" + secret, "may use .Namespace, .Name and .Image only"},
		{"no template", "https://license.example.com/{{" + secret, "is not a Go template"},
		{"no URL", "https://license.example.com/%zz" + secret, "is not a URL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseURL(test.text)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error is %v, without %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), secret):
				t.Errorf("the error contains the secret: %v", err)
			}
		})
	}
}

// TestSlowServerDelaysNoOtherObject: with one worker, the question for "slow" is answered only
// after the pass over "quick".
func TestSlowServerDelaysNoOtherObject(t *testing.T) {
	slowAsked, quickDone := make(chan struct{}), make(chan struct{})
	client, _ := clientOf(t, serve(t, func(http.ResponseWriter, *http.Request) {
		close(slowAsked)
		<-quickDone
	}), func(c *Config) { c.Timeout = time.Minute })
	stop, end := context.WithCancel(t.Context())
	var answer Answer
	passes := controller.New(controller.ReconcilerFunc(func(ctx context.Context, key cache.ObjectName, _ controller.Reason) (controller.Result, error) {
		if key.Name == "quick" {
			close(quickDone)
			return controller.Result{}, nil
		}
		defer end()
		answer = client.Ask(ctx, app, false)
		return controller.Result{}, nil
	}), controller.Options{Name: "test", Workers: 1})
	go func() {
		<-slowAsked
		passes.Enqueue(cache.NewObjectName("ns", "quick"), controller.SpecChange)
	}()
	passes.Enqueue(cache.NewObjectName("ns", "slow"), controller.SpecChange)

	err := passes.Run(stop, t.Context())

	if err != nil || answer.Verdict != Granted {
		t.Errorf("Run() = %v, and the answer is %+v", err, answer)
	}
}
