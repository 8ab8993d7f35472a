// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const secret = "hunter2"

var app = Subject{Namespace: "shop", Name: "web", Image: "registry.example.com:5000/team/web:v1@sha256:0"}

// clientOf returns a client of a server, which it asks with a secret.
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
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") })
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
		{"yes", answers(200), nil, Granted, "granted"},
		{"another kind of success", answers(204), nil, Unavailable, "answered 204 No Content"},
		{"no", answers(403), nil, Denied, "answered 403 Forbidden"},
		{"unknown", answers(404), nil, Denied, "answered 404 Not Found"},
		{"later", answers(429), nil, Unavailable, "answered 429 Too Many Requests"},
		{"broken", answers(500), nil, Unavailable, "answered 500 Internal Server Error"},
		{"a code that nobody knows", answers(599), nil, Unavailable, "answered 599"},
		{"a redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, nil, Unavailable, "redirects to another host"},
		{"a redirect without end", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, nil, Unavailable, "redirects too often"},
		{"a redirect within the host", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/ok" {
				http.Redirect(w, r, "/ok", http.StatusFound)
			}
		}, nil, Granted, "granted"},
		{"a body without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, nil, Unavailable, "larger than 64 KiB"},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Noise", strings.Repeat("x", 1<<20))
		}, nil, Unavailable, "cannot be reached, or breaks off"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, quick, Unavailable, "did not answer within 100ms"},
		{"silence in the middle", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, quick, Unavailable, "did not answer within 100ms"},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, Unavailable, "cannot be reached, or breaks off"},
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
				t.Errorf("shows too much: %q", got.Message)
			}
		})
	}
}

func TestWhatIsAsked(t *testing.T) {
	var asked atomic.Value
	client, _ := clientOf(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.URL.Path + " " + r.URL.Query().Get("image") + " " + r.URL.Query().Get("token"))
	}))
	client.Ask(t.Context(), app, false)
	if want := "GET /shop/web " + app.Image + " " + secret; asked.Load() != want {
		t.Errorf("asked %v, want %s", asked.Load(), want)
	}
}

func TestServerThatIsAbsent(t *testing.T) {
	server := serve(t, answers(200))
	client, clock := clientOf(t, server)
	server.Close()
	if got := client.Ask(t.Context(), app, false); got.Verdict != Unavailable || !strings.Contains(got.Message, "cannot be reached") {
		t.Errorf("got %+v", got)
	}
	// It is left alone for a while, whoever asks.
	if got, ok := client.recall("another"); !ok || got.Verdict != Unavailable {
		t.Errorf("got %+v", got)
	}
	clock.Step(DefaultPause)
	if _, ok := client.recall("another"); ok {
		t.Error("it is not asked again")
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

func TestAnswersAreRemembered(t *testing.T) {
	var asked atomic.Int32
	client, clock := clientOf(t, serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	ask := func(subject Subject, anew bool, want int32) {
		t.Helper()
		client.Ask(t.Context(), subject, anew)
		if got := asked.Load(); got != want {
			t.Errorf("asked %d times, want %d", got, want)
		}
	}
	ask(app, false, 1)
	ask(app, false, 1)
	ask(app, true, 2)
	ask(Subject{Namespace: "shop", Name: "other"}, false, 3)
	clock.Step(DefaultTTL)
	ask(app, false, 4)
}

func TestMemoryIsBounded(t *testing.T) {
	client, _ := clientOf(t, serve(t, answers(200)))
	for i := range 3 * maxAnswers {
		client.remember(string(rune(i)), Answer{}, true)
	}
	if got := len(client.answers); got > maxAnswers {
		t.Errorf("%d answers are remembered", got)
	}
}

func TestFewQuestionsAtATime(t *testing.T) {
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
		all.Go(func() { client.Ask(t.Context(), Subject{Name: string(rune('a' + i))}, false) })
	}
	<-entered
	<-entered
	close(release)
	all.Wait()
	if got := most.Load(); got != 2 {
		t.Errorf("%d at a time", got)
	}
}

func TestCallerThatGoes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, _ := clientOf(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	client.Ask(ctx, app, false)
	if _, ok := client.recall("anything"); ok {
		t.Error("the server is blamed for it")
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
		{"host of the app", "https://{{.Namespace}}.example.com/", "must have the same host"},
		{"password of the app", "https://user:{{.Name}}@example.com/", "must have the same host"},
		{"scheme of the app", "{{if .Name}}https{{else}}http{{end}}://127.0.0.1/", "must have the same host"},
		{"unknown field", "https://license.example.com/{{.Message}}" + secret, "uses something else than"},
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
				t.Errorf("shows the secret: %v", err)
			}
		})
	}
}
