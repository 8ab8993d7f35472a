// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// kubeconfigFor writes a kubeconfig for server and returns its path.
func kubeconfigFor(t *testing.T, server string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "x"
	if change != nil {
		change(config)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRESTConfig(t *testing.T) {
	good := kubeconfigFor(t, "https://127.0.0.1:6443", nil)
	noContext := kubeconfigFor(t, "https://127.0.0.1:6443", func(c *clientcmdapi.Config) { c.CurrentContext = "" })
	wrongContext := kubeconfigFor(t, "https://127.0.0.1:6443", func(c *clientcmdapi.Config) { c.CurrentContext = "y" })
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		file string
		want string
	}{
		{name: "good", file: good},
		{name: "no cluster and no file", want: "no API server to talk to: this is not a pod of a cluster; name a kubeconfig file with --kubeconfig"},
		{name: "missing", file: "/does/not/exist", want: "--kubeconfig=/does/not/exist: "},
		{name: "garbage", file: garbage, want: "--kubeconfig=" + garbage + ": "},
		{name: "no current context", file: noContext, want: "--kubeconfig=" + noContext + ": has no current context"},
		{name: "unknown context", file: wrongContext, want: "--kubeconfig=" + wrongContext + ": "},
	}
	// Neither variable may lead the operator anywhere.
	t.Setenv("KUBECONFIG", good)
	t.Setenv("KUBERNETES_MASTER", "https://127.0.0.1:1")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := Config{Options: Options{Kubeconfig: test.file}, Version: "v1"}
			got, err := restConfig(cfg)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want == "":
				if got.Host != "https://127.0.0.1:6443" || got.QPS != -1 || got.UserAgent != "demoapp-controller/v1" {
					t.Errorf("host %q, QPS %v, user agent %q", got.Host, got.QPS, got.UserAgent)
				}
			case err == nil || !strings.HasPrefix(err.Error(), test.want):
				t.Errorf("error = %v, want %s", err, test.want)
			case strings.Contains(err.Error(), "\n"):
				t.Errorf("error has several lines: %v", err)
			}
		})
	}
}

// resources answers with the API resources of the group.
func resources(names ...string) http.HandlerFunc {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "demo.example.com/v1alpha1"}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Namespaced: true, Kind: "X"})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/demo.example.com/v1alpha1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		tls     bool
		want    string
	}{
		{name: "served", handler: resources("demoapps/status", "demoapps", "demoappclusters")},
		{name: "bad credentials", handler: status(http.StatusUnauthorized), want: "the API server at HOST refuses the credentials: "},
		{name: "forbidden", handler: status(http.StatusForbidden), want: "asking the API server at HOST for the DemoApp API: "},
		{name: "unknown CA", handler: resources("demoapps", "demoappclusters"), tls: true, want: "asking the API server at HOST for the DemoApp API: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := httptest.NewUnstartedServer(test.handler)
			if test.tls {
				// It would log the refused handshake.
				api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
				api.StartTLS()
			} else {
				api.Start()
			}
			t.Cleanup(api.Close)
			clients, err := newClients(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			err = preflight(t.Context(), clients.kube.Discovery(), api.URL)
			want := strings.ReplaceAll(test.want, "HOST", api.URL)
			switch {
			case want == "" && err != nil:
				t.Errorf("preflight() = %v", err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
				t.Errorf("preflight() = %v, want %s", err, want)
			}
		})
	}
}

// flaky answers with err until it recovers.
type flaky struct {
	discovery.ServerResourcesInterfaceWithContext
	err     error
	hangs   bool
	recover time.Time
}

func (f *flaky) ServerResourcesForGroupVersionWithContext(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
	if time.Now().After(f.recover) {
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "demoapps"}, {Name: "demoappclusters"}}}, nil
	}
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, f.err
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
		{name: "refused", api: flaky{err: refused}, recover: time.Hour, want: "the API server at h does not answer (tried for 10s): dial tcp: connection refused", atMost: preflightTimeout},
		{name: "swallowed", api: flaky{hangs: true}, recover: time.Hour, want: "the API server at h does not answer (tried for 10s): context deadline exceeded", atMost: preflightTimeout},
		{name: "just starting", api: flaky{err: refused}, recover: 3 * time.Second, atMost: 4 * time.Second},
		{name: "hopeless", api: flaky{err: errors.New("x509: unknown authority")}, recover: time.Hour, want: "asking the API server at h"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				test.api.recover = start.Add(test.recover)
				err := preflight(t.Context(), &test.api, "h")
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

// growing serves more kinds as time passes, and counts how often it is asked.
type growing struct {
	discovery.ServerResourcesInterfaceWithContext
	start time.Time
	// from is when each kind is served. Without one, the group version is not known either.
	from  map[string]time.Duration
	asked int
}

func (g *growing) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	g.asked++
	list := &metav1.APIResourceList{}
	for kind, from := range g.from {
		if time.Since(g.start) >= from {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return list, nil
}

func TestPreflightWaitsForCRDs(t *testing.T) {
	const never = 1000 * time.Hour
	tests := []struct {
		name string
		from map[string]time.Duration
		// served is when all are, and late how much later that may be noticed.
		served, late time.Duration
		// said is what the log names as missing, one after the other.
		said    []string
		atMost  int
		stopped bool
	}{
		{name: "served", from: map[string]time.Duration{"demoapps": 0, "demoappclusters": 0}, atMost: 1},
		{
			name:   "just applied",
			from:   map[string]time.Duration{"demoapps": 2 * time.Second, "demoappclusters": 2 * time.Second},
			served: 2 * time.Second, late: 2 * time.Second, said: []string{"DemoApps, DemoAppClusters"}, atMost: 7,
		},
		{
			name:   "one after the other",
			from:   map[string]time.Duration{"demoapps": time.Minute, "demoappclusters": time.Hour},
			served: time.Hour, late: 15 * time.Second, said: []string{"DemoApps, DemoAppClusters", "DemoAppClusters"}, atMost: 370,
		},
		{
			name:   "another kind of the group",
			from:   map[string]time.Duration{"others": 0, "demoapps": time.Second, "demoappclusters": time.Second},
			served: time.Second, late: time.Second, said: []string{"DemoApps, DemoAppClusters"}, atMost: 5,
		},
		{
			name:   "stopped meanwhile",
			from:   map[string]time.Duration{"demoapps": never, "demoappclusters": never},
			served: time.Hour, said: []string{"DemoApps, DemoAppClusters"}, atMost: 370, stopped: true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &growing{start: time.Now(), from: test.from}
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), time.Hour+time.Minute)
				defer cancel()
				if test.stopped {
					ctx, cancel = context.WithTimeout(ctx, test.served)
					defer cancel()
				}

				err := preflight(ctx, api, "h")

				if (err != nil) != test.stopped {
					t.Errorf("preflight() = %v", err)
				}
				if took := time.Since(api.start); took < test.served || took > test.served+test.late {
					t.Errorf("took %v, want %v to %v", took, test.served, test.served+test.late)
				}
				if api.asked > test.atMost {
					t.Errorf("asked %d times, want at most %d", api.asked, test.atMost)
				}
				var said []string
				logs, ok := logger.GetSink().(ktesting.Underlier)
				if !ok {
					t.Fatal("the log is not kept")
				}
				for _, entry := range logs.GetBuffer().Data() {
					said = append(said, fmt.Sprint(entry.ParameterKVList[1]))
				}
				if !slices.Equal(said, test.said) {
					t.Errorf("said %q, want %q", said, test.said)
				}
			})
		})
	}
}

func TestPreflightIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := preflight(ctx, &flaky{hangs: true, recover: start.Add(time.Hour)}, "h"); err == nil {
			t.Error("preflight() succeeded")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

func TestClientsShareOneConnection(t *testing.T) {
	var mu sync.Mutex
	connections, agents := map[string]bool{}, map[string]bool{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.RemoteAddr], agents[r.UserAgent()] = true, true
		w.Header().Set("Content-Type", "application/json")
		_, _ = bytes.NewBufferString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`).WriteTo(w)
	}))
	t.Cleanup(api.Close)
	config, err := restConfig(Config{Options: Options{Kubeconfig: kubeconfigFor(t, api.URL, nil)}, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := newClients(config)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := clients.leases(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: demov1alpha1.GroupName, Version: "v1alpha1", Resource: "demoapps"}
	// Only the requests matter here, not their answers.
	_, _ = clients.kube.CoreV1().Secrets("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = clients.demo.DemoV1alpha1().DemoApps("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = clients.metadata.Resource(gvr).Namespace("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = clients.dynamic.Resource(gvr).Namespace("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = leases.Leases("a").Get(t.Context(), "b", metav1.GetOptions{})
	if len(connections) != 1 {
		t.Errorf("%d connections, want 1", len(connections))
	}
	if len(agents) != 1 || !agents["demoapp-controller/v1"] {
		t.Errorf("user agents = %v", agents)
	}
}
