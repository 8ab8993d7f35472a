// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// apiServer serves the resources, and answers lists and watches of them. With refuseWatches,
// watches are forbidden.
func apiServer(refuseWatches bool, resources ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		watch := r.URL.Query().Has("watch")
		switch {
		case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") <= 3:
			answerDiscovery(w, r, resources)
		case resource == "selfsubjectrulesreviews":
			answer(w, authorizationv1.SelfSubjectRulesReview{
				TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectRulesReview", APIVersion: "authorization.k8s.io/v1"},
				Status: authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{
					{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
				}},
			})
		case !slices.Contains(resources, resource):
			http.NotFound(w, r)
		case watch && refuseWatches:
			w.WriteHeader(http.StatusForbidden)
		case watch:
			if r.URL.Query().Get("resourceVersion") != "7" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case r.URL.Query().Get("limit") != "1":
			w.WriteHeader(http.StatusBadRequest)
		default:
			answer(w, metav1.PartialObjectMetadataList{
				TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
				ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			})
		}
	}
}

// answerDiscovery answers without aggregated discovery, as older API servers do.
func answerDiscovery(w http.ResponseWriter, r *http.Request, resources []string) {
	version := metav1.GroupVersionForDiscovery{GroupVersion: apps.GroupVersion().String(), Version: apps.Version}
	switch r.URL.Path {
	case "/api":
		answer(w, metav1.APIVersions{})
	case "/apis":
		answer(w, metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: apps.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}}})
	case "/apis/" + version.GroupVersion:
		list := metav1.APIResourceList{GroupVersion: version.GroupVersion}
		for _, resource := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource, Namespaced: true})
		}
		answer(w, list)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// lists answers lists of resources with a code.
func lists(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("limit") {
			w.WriteHeader(code)
			return
		}
		apiServer(false, "demoapps", "demoappclusters")(w, r)
	}
}

// silent refuses reviews of the operator's permissions.
func silent() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		apiServer(false, "demoapps", "demoappclusters")(w, r)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		name      string
		handler   http.HandlerFunc
		tls       bool
		startable string
		want      string
	}{
		{name: "served", handler: apiServer(false, "demoapps", "demoappclusters"), startable: "demoapp,demoappcluster"},
		{name: "no CRD", handler: apiServer(false)},
		{name: "one CRD", handler: apiServer(false, "demoapps"), startable: "demoapp"},
		{name: "CRD of the child is missing", handler: apiServer(false, "demoappclusters")},
		{name: "forbidden", handler: lists(http.StatusForbidden)},
		{name: "permissions are not told", handler: silent(), startable: "demoapp,demoappcluster"},
		{name: "watches are forbidden", handler: apiServer(true, "demoapps", "demoappclusters")},
		{name: "broken conversion webhook", handler: lists(http.StatusInternalServerError)},
		{name: "bad credentials", handler: status(http.StatusUnauthorized), want: "the API server at HOST rejects the credentials: "},
		{
			name: "unknown CA", handler: apiServer(false, "demoapps", "demoappclusters"), tls: true,
			want: "asking the API server at HOST: ",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := httptest.NewUnstartedServer(test.handler)
			if test.tls {
				// Discard the log line about the rejected handshake.
				api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
				api.StartTLS()
			} else {
				api.Start()
			}
			t.Cleanup(api.Close)
			clients, err := NewClients(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			queue := newKindQueue(twoKinds(), []string{"a", "b"}, newQuestions(clients),
				newDefinitions(clients.Dynamic), api.URL, newKindMetrics())

			startable, err := queue.preflight(t.Context())

			want := strings.ReplaceAll(test.want, "HOST", api.URL)
			switch {
			case want == "" && err != nil:
				t.Errorf("preflight() = %v", err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
				t.Errorf("preflight() = %v, want %s", err, want)
			}
			if got := names(startable); got != test.startable {
				t.Errorf("startable = %q, want %q", got, test.startable)
			}
		})
	}
}

// flaky answers with err until it recovers.
type flaky struct {
	err     error
	hangs   bool
	recover time.Time
}

func (f *flaky) ask(ctx context.Context, _ schema.GroupVersionResource, _ string) error {
	if time.Now().After(f.recover) {
		return nil
	}
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func TestPreflightUnreachable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name    string
		api     flaky
		recover time.Duration
		want    string
		atMost  time.Duration
	}{
		{name: "connection refused", api: flaky{err: refused}, recover: time.Hour, want: "the API server at h does not answer (tried for 2m0s): demoapps.demo.example.com: dial tcp: connection refused", atMost: preflightTimeout},
		{name: "packets dropped", api: flaky{hangs: true}, recover: time.Hour, want: "the API server at h does not answer (tried for 2m0s): demoapps.demo.example.com: context deadline exceeded", atMost: preflightTimeout},
		{name: "API server starts", api: flaky{err: refused}, recover: 3 * time.Second, atMost: 4 * time.Second},
		{name: "API server ends in the middle of an answer", api: flaky{err: http2.StreamError{StreamID: 3, Code: http2.ErrCodeInternal}}, recover: 3 * time.Second, atMost: 4 * time.Second},
		{name: "API server is away for a minute", api: flaky{err: refused}, recover: time.Minute, atMost: time.Minute + time.Second},
		{name: "permanent error", api: flaky{err: errors.New("x509: unknown authority")}, recover: time.Hour, want: "asking the API server at h"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				test.api.recover = start.Add(test.recover)
				queue, _ := newTestQueue(test.api.ask)

				_, err := queue.preflight(t.Context())

				switch {
				case test.want == "" && err != nil:
					t.Errorf("preflight() = %v", err)
				case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
					t.Errorf("preflight() = %v, want %s", err, test.want)
				}
				if took := time.Since(start); took > test.atMost {
					t.Errorf("took %v, want at most %v", took, test.atMost)
				}
			})
		})
	}
}

func TestPreflightInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		api := &flaky{hangs: true, recover: start.Add(time.Hour)}
		queue, _ := newTestQueue(api.ask)
		if _, err := queue.preflight(ctx); err == nil {
			t.Error("preflight() succeeded")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}
