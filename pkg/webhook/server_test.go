// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/webhook"
)

// fixed is a source with one certificate, or an error.
type fixed struct {
	certificate *tls.Certificate
	err         error
}

func (f fixed) Certificate() (*tls.Certificate, error) { return f.certificate, f.err }

// certificate returns a certificate for 127.0.0.1, and a client that trusts it.
func certificate(t *testing.T) (fixed, *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	pair.Leaf = server.Certificate()
	return fixed{certificate: &pair}, server.Client()
}

// handlers allow, refuse, change and fail.
var handlers = map[string]webhook.Handler{
	"/allow": func(*admissionv1.AdmissionRequest) (webhook.Response, error) { return webhook.Response{}, nil },
	"/deny": func(r *admissionv1.AdmissionRequest) (webhook.Response, error) {
		return webhook.Response{Denied: "not " + r.Name}, nil
	},
	"/patch": func(*admissionv1.AdmissionRequest) (webhook.Response, error) {
		return webhook.Response{Patch: []webhook.PatchOperation{webhook.Add(false, "metadata", "labels", "a/b~c")}}, nil
	},
	"/fail": func(*admissionv1.AdmissionRequest) (webhook.Response, error) {
		return webhook.Response{}, errors.New("broken")
	},
	"/panic": func(*admissionv1.AdmissionRequest) (webhook.Response, error) { panic("lost") },
}

// start runs a server until the end of the test and returns a function that posts to it.
func start(t *testing.T, handlers map[string]webhook.Handler) (post func(path, contentType, body string) (int, string)) {
	t.Helper()
	source, client := certificate(t)
	server, err := webhook.Listen(t.Context(), "127.0.0.1:0", handlers, source, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(path, contentType, body string) (int, string) {
		t.Helper()
		return send(t, client, "https://"+server.Address()+path, contentType, body)
	}
}

func send(t *testing.T, client *http.Client, url, contentType, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","name":"web","later":{"x":1}}}`

func TestAnswers(t *testing.T) {
	post := start(t, handlers)
	tests := []struct {
		path string
		want admissionv1.AdmissionResponse
	}{
		{path: "/allow", want: admissionv1.AdmissionResponse{Allowed: true}},
		{path: "/deny"},
		{path: "/patch", want: admissionv1.AdmissionResponse{
			Allowed: true, Patch: []byte(`[{"op":"add","path":"/metadata/labels/a~1b~0c","value":false}]`),
		}},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			status, body := post(test.path, "application/json; charset=utf-8", review)

			var answer admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v: %s", status, err, body)
			}
			if answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" || answer.Response.UID != "u-1" {
				t.Errorf("answer is %s", body)
			}
			if answer.Response.Allowed != test.want.Allowed || !bytes.Equal(answer.Response.Patch, test.want.Patch) {
				t.Errorf("answer is %s", body)
			}
			if (answer.Response.PatchType != nil) != (test.want.Patch != nil) {
				t.Errorf("patchType in %s", body)
			}
			if !test.want.Allowed && (answer.Response.Result.Message != "not web" || answer.Response.Result.Code != 403) {
				t.Errorf("result is %+v", answer.Response.Result)
			}
		})
	}
}

// TestInvalidReviewGetsHTTPError: the API server applies the failurePolicy after an HTTP error.
func TestInvalidReviewGetsHTTPError(t *testing.T) {
	post := start(t, handlers)
	const kind = "application/json"
	tests := []struct {
		name, path, contentType, body string
		status                        int
		message                       string
	}{
		{"another path", "/none", kind, review, 404, "not found"},
		{"another content type", "/allow", "text/plain", review, 415, "application/json"},
		{"no content type", "/allow", "", review, 415, "application/json"},
		{"too large", "/allow", kind, `{"x":"` + strings.Repeat("x", 3<<20) + `"}`, 413, "larger than 3145728 bytes"},
		{"no JSON", "/allow", kind, "{", 400, "decoding the AdmissionReview"},
		{"two documents", "/allow", kind, review + review, 400, "decoding the AdmissionReview"},
		{"field twice", "/allow", kind, strings.Replace(review, `"uid":"u-1"`, `"uid":"u-1","uid":"u-2"`, 1), 400, "duplicate field"},
		{"field in another case", "/allow", kind, strings.Replace(review, `"uid"`, `"UID"`, 1), 400, "no request with a UID"},
		{"another version", "/allow", kind, strings.Replace(review, "k8s.io/v1", "k8s.io/v1beta1", 1), 400, "v1beta1 is not understood"},
		{"another kind", "/allow", kind, strings.Replace(review, "AdmissionReview", "Pod", 1), 400, "Pod of admission.k8s.io/v1 is not understood"},
		{"no request", "/allow", kind, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "no request with a UID"},
		{"a UID that is too long", "/allow", kind, strings.Replace(review, "u-1", strings.Repeat("u", 257), 1), 400, "longer than 256 bytes"},
		{"failing handler", "/fail", kind, review, 422, "broken"},
		{"panicking handler", "/panic", kind, review, 500, "the webhook panicked"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := post(test.path, test.contentType, test.body)

			if status != test.status || !strings.Contains(body, test.message) || strings.Contains(body, "lost") {
				t.Errorf("status %d, %q", status, body)
			}
		})
	}
	if status, _ := post("/allow", kind, review); status != http.StatusOK {
		t.Errorf("status %d after the errors", status)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	source, client := certificate(t)
	server, err := webhook.Listen(t.Context(), "127.0.0.1:0", handlers, source, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Run(t.Context()) }()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("unexpected %T", client.Transport)
	}
	transport.TLSClientConfig.MaxVersion = tls.VersionTLS11

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+server.Address()+"/allow", strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)

	if err == nil {
		_ = response.Body.Close()
		t.Error("TLS 1.1 is accepted")
	}
}

// TestSlowBodiesDoNotDelayOtherCallers: callers with unfinished bodies do not block the reviews of
// other callers.
func TestSlowBodiesDoNotDelayOtherCallers(t *testing.T) {
	tests := []struct {
		name, from string
		length     int
	}{
		{"small bodies", "127.0.0.1", 100},
		{"large bodies of another address", "127.0.0.2", 3 << 20},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source, client := certificate(t)
			server, err := webhook.Listen(t.Context(), "127.0.0.1:0", handlers, source, clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = server.Run(t.Context()) }()
			transport, ok := client.Transport.(*http.Transport)
			if !ok {
				t.Fatalf("unexpected %T", client.Transport)
			}
			dialer := tls.Dialer{
				NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(test.from)}}, Config: transport.TLSClientConfig,
			}
			for range 20 {
				connection, err := dialer.DialContext(t.Context(), "tcp", server.Address())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = connection.Close() })
				if _, err := fmt.Fprintf(connection, "POST /allow HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n{", test.length); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()

			status, body := send(t, client, "https://"+server.Address()+"/allow", "application/json", review)

			if status != http.StatusOK || time.Since(began) > time.Second {
				t.Errorf("status %d after %s: %s", status, time.Since(began), body)
			}
		})
	}
}

// TestReviewInFlightIsFinished: a stopping server still answers the requests that it has received.
func TestReviewInFlightIsFinished(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	source, client := certificate(t)
	server, err := webhook.Listen(t.Context(), "127.0.0.1:0", map[string]webhook.Handler{
		"/slow": func(*admissionv1.AdmissionRequest) (webhook.Response, error) {
			close(entered)
			<-leave
			return webhook.Response{}, nil
		},
	}, source, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	answered := make(chan string, 1)
	go func() {
		status, body := send(t, client, "https://"+server.Address()+"/slow", "application/json", review)
		answered <- fmt.Sprint(status, body)
	}()

	<-entered
	cancel()
	close(leave)

	if answer := <-answered; !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("answer is %s", answer)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestPortConflict(t *testing.T) {
	source, _ := certificate(t)
	first, err := webhook.Listen(t.Context(), "127.0.0.1:0", handlers, source, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}

	_, err = webhook.Listen(t.Context(), first.Address(), handlers, source, clock.RealClock{})

	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v", err)
	}
}

func TestReady(t *testing.T) {
	valid, _ := certificate(t)
	missing := errors.New("no certificate yet")
	tests := []struct {
		name   string
		source fixed
		now    time.Time
		want   string
	}{
		{name: "valid", source: valid, now: time.Now()},
		{name: "expired", source: valid, now: valid.certificate.Leaf.NotAfter.Add(time.Second), want: "is not valid at this time"},
		{name: "not yet valid", source: valid, now: valid.certificate.Leaf.NotBefore.Add(-time.Second), want: "is not valid at this time"},
		{name: "none", source: fixed{err: missing}, now: time.Now(), want: "no certificate yet"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server, err := webhook.Listen(t.Context(), "127.0.0.1:0", handlers, test.source, testingclock.NewFakePassiveClock(test.now))
			if err != nil {
				t.Fatal(err)
			}

			err = server.Ready()

			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Ready() = %v, want %q", err, test.want)
			}
		})
	}
}
