// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanup_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/cleanup"
)

const secret = "hunter2"

func TestCall(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		answer  string
		err     string
	}{
		{name: "200", handler: code(200), answer: "The cleanup server answered 200 OK"},
		{name: "204", handler: code(204), answer: "The cleanup server answered 204 No Content"},
		{name: "404", handler: code(404), answer: "The cleanup server answered 404 Not Found"},
		{name: "400", handler: code(400), err: "The cleanup server answered 400 Bad Request"},
		{name: "503", handler: code(503), err: "The cleanup server answered 503 Service Unavailable"},
		{name: "304", handler: code(304), err: "The cleanup server answered 304 Not Modified"},
		{
			name: "redirect to GET", handler: http.RedirectHandler("/done", http.StatusFound).ServeHTTP,
			err: "The cleanup server redirects to another method: use the status code 307 or 308",
		},
		{
			name: "no response", handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			err: "The cleanup server did not answer within 200ms",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var request atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				request.CompareAndSwap(nil, r.Method+" "+r.URL.String())
				test.handler(w, r)
			}))
			t.Cleanup(server.Close)
			at, err := cleanup.ParseURL(server.URL + "/apps/{{.Namespace}}/{{.Name}}?token=" + secret)
			if err != nil {
				t.Fatal(err)
			}
			hook := cleanup.New(cleanup.Config{URL: at, Timeout: 200 * time.Millisecond})

			answer, err := hook.Call(t.Context(), cache.NewObjectName("shop", "web"))

			if want := "DELETE /apps/shop/web?token=" + secret; request.Load() != want {
				t.Errorf("request is %v, want %s", request.Load(), want)
			}
			var message string
			if err != nil {
				message = err.Error()
			}
			if answer != test.answer || message != test.err {
				t.Errorf("Call() = %q, %q, want %q, %q", answer, message, test.answer, test.err)
			}
			if strings.Contains(answer+message, secret) {
				t.Errorf("the message contains the secret: %s%s", answer, message)
			}
		})
	}
}

// TestSlowServerDelaysNoOtherObject: with one worker, the call for "slow" ends only after the pass
// over "quick".
func TestSlowServerDelaysNoOtherObject(t *testing.T) {
	slowCalled, quickDone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(slowCalled)
		<-quickDone
	}))
	t.Cleanup(server.Close)
	at, err := cleanup.ParseURL(server.URL + "/{{.Name}}")
	if err != nil {
		t.Fatal(err)
	}
	hook := cleanup.New(cleanup.Config{URL: at})
	stop, end := context.WithCancel(t.Context())
	var slowErr error
	passes := controller.New(controller.ReconcilerFunc(func(ctx context.Context, key cache.ObjectName, _ controller.Reason) (controller.Result, error) {
		if key.Name == "quick" {
			close(quickDone)
			return controller.Result{}, nil
		}
		defer end()
		_, slowErr = hook.Call(ctx, key)
		return controller.Result{}, slowErr
	}), controller.Options{Name: "test", Workers: 1})
	go func() {
		<-slowCalled
		passes.Enqueue(cache.NewObjectName("ns", "quick"), controller.SpecChange)
	}()
	passes.Enqueue(cache.NewObjectName("ns", "slow"), controller.SpecChange)

	err = passes.Run(stop, t.Context())

	if err != nil || slowErr != nil {
		t.Errorf("Run() = %v, and the call ended with %v", err, slowErr)
	}
}

func code(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestParseURL(t *testing.T) {
	tests := map[string]string{
		"https://cleanup.example.com/{{.Namespace}}/{{.Name}}": "",
		"http://127.0.0.1:8080/{{.Name}}":                      "",
		"http://cleanup.example.com/{{.Name}}":                 "must begin with https://",
		"https://cleanup.example.com/{{.Image}}":               "may use .Namespace and .Name only",
		"https://{{.Namespace}}.example.com/":                  "must have the same host",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			_, err := cleanup.ParseURL(text)

			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error is %v, want %q", err, want)
			}
		})
	}
}
