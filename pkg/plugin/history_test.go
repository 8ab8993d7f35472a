// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// releaseWorld is an API server with a DemoApp "web" and two revisions of its release.
type releaseWorld struct {
	*fakeapi.Server

	kubeconfig string
	options    plugin.Options
}

func newReleaseWorld(t *testing.T) *releaseWorld {
	t.Helper()
	server := fakeapi.New(t)
	server.Serve(schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}, "DemoApp", true)
	server.Serve(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, "Lease", true)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		answer, err := server.RoundTrip(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(flushing{w}, answer.Body)
	}))
	t.Cleanup(listener.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	expect.NoError(t, os.WriteFile(kubeconfig, []byte(`
clusters: [{name: fake, cluster: {server: "`+listener.URL+`"}}]
contexts: [{name: fake, context: {cluster: fake, namespace: shop}}]
current-context: fake
`), 0o600))
	w := &releaseWorld{Server: server, kubeconfig: kubeconfig, options: plugin.Options{Now: func() time.Time { return time.Unix(4000, 0) }}}
	w.create(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`)
	w.create(t, `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  namespace: demoapp-system
  name: demoapp-controller
  annotations: {demo.example.com/operator: '{"version": "v1", "resources": ["demoapps.demo.example.com"]}'}
`)
	w.create(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {namespace: shop, name: web}
spec: {message: b, replicaCount: 1}
status:
  deployedRelease: {name: web, revision: 2, chart: demo-app, chartVersion: 0.1.0}
  history: [{time: "1970-01-01T00:33:20Z", action: Upgrade, outcome: Succeeded, revision: 2, reason: SpecGenerationChanged, changed: [values.message]}]
`)
	w.create(t, recordOf("1", "superseded", "a"))
	w.create(t, recordOf("2", "deployed", "b"))
	return w
}

// recordOf returns the record of a revision whose ConfigMap has a text.
func recordOf(revision, status, message string) string {
	return recordWith(revision, status, message, configMapTemplate)
}

// recordWith is recordOf for another template of the chart.
func recordWith(revision, status, message, template string) string {
	content := `{"name": "web", "namespace": "shop", "version": ` + revision + `, "config": {"message": "` + message + `", "replicaCount": 1},
		"manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {text: ` + message + `}\n",
		"info": {"status": "` + status + `", "last_deployed": "1970-01-01T00:16:40Z"},
		"chart": {"metadata": {"apiVersion": "v2", "name": "demo-app", "version": "0.1.0"}, "values": {"message": "default", "replicaCount": 1},
			"templates": [{"name": "templates/configmap.yaml", "data": "` + base64.StdEncoding.EncodeToString([]byte(template)) + `"}]}}`
	release := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(content))))
	return `
apiVersion: v1
kind: Secret
type: helm.sh/release.v1
metadata:
  namespace: shop
  name: sh.helm.release.v1.web.v` + revision + `
  labels: {owner: helm, name: web, version: "` + revision + `", status: ` + status + `}
data: {release: "` + release + `"}
`
}

const configMapTemplate = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.message }}}\n"

// create creates an object from YAML, as the helm command does.
func (w *releaseWorld) create(t *testing.T, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	expect.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	w.Edit(object.GetKind(), object.GetNamespace()+"/"+object.GetName(), "helm", func(live *unstructured.Unstructured) {
		live.Object = object.Object
	})
}

// forbid lets the user read no object of a name.
func (w *releaseWorld) forbid(name string) {
	w.Fault = func(request fakeapi.Request) fakeapi.Fault {
		if request.Key.Name == name {
			return fakeapi.AnswerForbidden
		}
		return fakeapi.NoFault
	}
}

// run runs the plugin without an answer to its questions.
func (w *releaseWorld) run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	return w.answering(t, "", args...)
}

// answering runs the plugin with an answer to its questions.
func (w *releaseWorld) answering(t *testing.T, answer string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = w.execute(t, genericiooptions.IOStreams{In: strings.NewReader(answer), Out: &stdout, ErrOut: &stderr}, args...)
	return code, stdout.String(), stderr.String()
}

// execute runs the plugin.
func (w *releaseWorld) execute(t *testing.T, streams genericiooptions.IOStreams, args ...string) (code int) {
	t.Helper()
	return plugin.Execute(t.Context(), w.options, append(args, "--kubeconfig="+w.kubeconfig, "--cache-dir="+t.TempDir()), streams)
}

// flushing sends each part of an answer at once, as a watch needs it.
type flushing struct{ http.ResponseWriter }

// Write implements io.Writer.
func (f flushing) Write(part []byte) (int, error) {
	n, err := f.ResponseWriter.Write(part)
	return n, errors.Join(err, http.NewResponseController(f.ResponseWriter).Flush())
}

// onWrite collects output, and calls a function after each write.
type onWrite struct {
	bytes.Buffer

	do func()
}

// Write implements io.Writer.
func (w *onWrite) Write(part []byte) (int, error) {
	n, err := w.Buffer.Write(part)
	w.do()
	return n, err
}

func TestHistoryCommand(t *testing.T) {
	t.Parallel()
	w := newReleaseWorld(t)
	tests := []struct {
		name      string
		args      []string
		code      int
		out, says string
	}{
		{name: "list", args: []string{"history", "demoapp/web"}, out: `
REVISION   AGE   ACTION    OUTCOME      CHART            BY     REASON
2          33m   Upgrade   Succeeded    demo-app@0.1.0   helm   SpecGenerationChanged: changed values.message
1          50m             superseded   demo-app@0.1.0   helm
`},
		{name: "compare", args: []string{"history", "demoapp/web", "--diff", "1", "2"}, code: 1, out: `
--- values	revision 1
+++ values	revision 2
@@ -1,2 +1,2 @@
-message: a
+message: b
 replicaCount: 1
--- ConfigMap/web	revision 1
+++ ConfigMap/web	revision 2
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  text: a
+  text: b
 kind: ConfigMap
 metadata:
   annotations:
`},
		{name: "compare with the deployed revision", args: []string{"history", "demoapp", "web", "--diff", "2"}, out: "\n"},
		{name: "compare by kind and name", args: []string{"history", "demoapp", "web", "--diff", "2", "2"}, out: "\n"},
		{name: "no revision", args: []string{"history", "demoapp/web", "--diff"}, code: 3, out: "\n", says: "name one or two revisions"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := w.run(t, test.args...)
			expect.Equal(t, "output", test.out, "\n"+out)
			expect.Contains(t, "errors", errOut, test.says)
			expect.Equal(t, "exit code", test.code, code)
		})
	}
}
