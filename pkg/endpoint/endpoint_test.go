// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "hunter2"

// redirect answers all paths but /done with a redirect to /done.
func redirect(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/done" {
			http.Redirect(w, r, "/done", code)
		}
	}
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			code = http.StatusMethodNotAllowed
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte("the body says " + secret))
	}
}

func TestSend(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		code    int
		want    RequestError
	}{
		{name: "204", handler: answer(204), code: 204},
		{name: "404", handler: answer(404), code: 404},
		{name: "500", handler: answer(500), code: 500},
		{name: "redirect of the method", handler: redirect(http.StatusTemporaryRedirect), code: 200},
		{
			name: "redirect to GET", handler: redirect(http.StatusFound),
			want: RequestError{"The cleanup server redirects to another method: use the status code 307 or 308", true},
		},
		{
			name:    "redirect to another host",
			handler: http.RedirectHandler("http://127.0.0.2:1/?"+secret, http.StatusPermanentRedirect).ServeHTTP,
			want:    RequestError{"The cleanup server redirects to another host", true},
		},
		{
			name:    "no response",
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			want:    RequestError{"The cleanup server did not answer within 200ms", false},
		},
		{
			name:    "closed connection",
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want:    RequestError{"The connection to the cleanup server failed", false},
		},
		{
			name:    "large body",
			handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxBody+1)) },
			want:    RequestError{"The answer of the cleanup server is larger than 64 KiB", true},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			t.Cleanup(server.Close)
			at, err := url.Parse(server.URL + "/apps/a?token=" + secret)
			if err != nil {
				t.Fatal(err)
			}
			client := New(Config{Server: "cleanup server", Timeout: 200 * time.Millisecond, Concurrent: 1, IdleTimeout: time.Minute})

			code, err := client.Send(t.Context(), "shop", http.MethodDelete, at)

			var got RequestError
			if failure := (*RequestError)(nil); errors.As(err, &failure) {
				got = *failure
			}
			if code != test.code || got != test.want {
				t.Errorf("Send() = %d, %+v, want %d, %+v", code, got, test.code, test.want)
			}
			if strings.Contains(client.Answered(code), secret) {
				t.Errorf("the message contains the secret: %s", client.Answered(code))
			}
		})
	}
}

// TestNamespaceShareOfSlots: the requests of one namespace, which the server does not
// answer, leave slots for another namespace.
func TestNamespaceShareOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(4)
		var granted []string
		acquire := func(ctx context.Context, namespace string) {
			go func() {
				if slots.acquire(ctx, namespace) == nil {
					granted = append(granted, namespace)
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			acquire(ctx, "slow")
		}
		for range 3 {
			acquire(t.Context(), "quick")
		}
		if want := []string{"slow", "slow", "quick", "quick"}; !slices.Equal(granted, want) {
			t.Errorf("slots of %v, want %v", granted, want)
		}

		acquire(t.Context(), "third")
		slots.release("slow")
		synctest.Wait()
		slots.release("third")
		synctest.Wait()
		slots.release("quick")
		synctest.Wait()
		if want := []string{"third", "slow", "quick"}; !slices.Equal(granted[4:], want) {
			t.Errorf("next slots of %v, want %v", granted[4:], want)
		}
		cancel()
		synctest.Wait()
		if len(slots.waiting) != 0 {
			t.Errorf("%d requests wait, want none", len(slots.waiting))
		}
	})
}

func TestTemplate(t *testing.T) {
	parsed, err := ParseTemplate("https://cleanup.example.com/{{.Namespace}}/{{.Name}}?key=a", "Namespace", "Name")
	if err != nil {
		t.Fatal(err)
	}

	got, err := parsed.URL(map[string]string{"Namespace": "shop", "Name": "web/../x?y"})

	if want := "https://cleanup.example.com/shop/web%2F..%2Fx%3Fy?key=a"; err != nil || got.String() != want {
		t.Errorf("URL = %v, %v, want %s", got, err, want)
	}
}

func TestParseTemplateNamesFields(t *testing.T) {
	const text = "https://cleanup.example.com/{{.Image}}"
	tests := []struct {
		fields []string
		want   string
	}{
		{[]string{"Name"}, "may use .Name only"},
		{[]string{"Namespace", "Name"}, "may use .Namespace and .Name only"},
		{[]string{"Namespace", "Name", "UID"}, "may use .Namespace, .Name and .UID only"},
	}
	for _, test := range tests {
		if _, err := ParseTemplate(text, test.fields...); err == nil || err.Error() != test.want {
			t.Errorf("ParseTemplate(%s) with %q = %v, want %s", text, test.fields, err, test.want)
		}
	}
}
