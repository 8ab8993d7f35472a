// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
		{name: "neither pod nor file", want: "no API server is configured: the process does not run in a pod; set --kubeconfig"},
		{name: "missing", file: "/does/not/exist", want: "--kubeconfig=/does/not/exist: "},
		{name: "garbage", file: garbage, want: "--kubeconfig=" + garbage + ": "},
		{name: "no current context", file: noContext, want: "--kubeconfig=" + noContext + ": has no current context"},
		{name: "unknown context", file: wrongContext, want: "--kubeconfig=" + wrongContext + ": "},
	}
	// The operator must ignore both variables.
	t.Setenv("KUBECONFIG", good)
	t.Setenv("KUBERNETES_MASTER", "https://127.0.0.1:1")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := restConfig(Options{Name: "demoapp-controller", Version: "v1", Kubeconfig: test.file})
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
	config, err := restConfig(Options{Name: "demoapp-controller", Version: "v1", Kubeconfig: kubeconfigFor(t, api.URL, nil)})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := clients.leases(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	// A kind builds the client of its group like this.
	typed, err := kubernetes.NewForConfigAndClient(clients.Config, clients.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	// The responses are not used.
	_, _ = clients.Kube.CoreV1().Secrets("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = typed.CoreV1().Secrets("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = clients.Metadata.Resource(gvr).Namespace("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = clients.Dynamic.Resource(gvr).Namespace("a").Get(t.Context(), "b", metav1.GetOptions{})
	_, _ = leases.Leases("a").Get(t.Context(), "b", metav1.GetOptions{})
	if len(connections) != 1 {
		t.Errorf("%d connections, want 1", len(connections))
	}
	if len(agents) != 1 || !agents["demoapp-controller/v1"] {
		t.Errorf("user agents = %v", agents)
	}
}
