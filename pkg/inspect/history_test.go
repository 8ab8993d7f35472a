// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// recorded is a revision of the release "web" for a record.
type recorded struct {
	revision         int
	status, manifest string
	values           map[string]any
	labels           map[string]string
	// held means that a finalizer holds the deleted record.
	held bool
}

// secret returns the Secret of the record.
func (r recorded) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	content, err := json.Marshal(map[string]any{
		"name": "web", "namespace": "shop", "version": r.revision, "config": r.values, "manifest": r.manifest,
		"info": map[string]any{"status": r.status, "description": "Rollback to 1", "last_deployed": time.Unix(int64(1000*r.revision), 0)},
		"chart": map[string]any{
			"metadata":  map[string]any{"apiVersion": "v2", "name": "demo-app", "version": "0.1.0"},
			"values":    map[string]any{"message": "default", "replicaCount": 1},
			"templates": []any{map[string]any{"name": "templates/configmap.yaml", "data": []byte(template)}},
		},
	})
	expect.NoError(t, err)
	labels := map[string]string{"owner": "helm", "name": "web", "version": strconv.Itoa(r.revision), "status": r.status}
	for key, value := range r.labels {
		labels[key] = value
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: record.SecretName("web", r.revision), Labels: labels,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm"}},
		},
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(content))},
	}
	if r.held {
		secret.DeletionTimestamp, secret.Finalizers = &metav1.Time{Time: time.Unix(9000, 0)}, []string{"example.com/held"}
	}
	return secret
}

const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.message | quote }}}\n"

// objectOf parses an object of the namespace shop.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	expect.NoError(t, err)
	expect.NoError(t, object.UnmarshalJSON(content))
	object.SetNamespace("shop")
	return object
}

// ours are the labels of a revision of the operator for the owner "app".
func ours(revision int) map[string]string {
	return map[string]string{record.InputsLabel: record.InputsValue(revision, "inputs", "chart"), record.OwnerLabel: "app"}
}

func TestHistory(t *testing.T) {
	app := objectOf(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata:
  name: web
  uid: app
  managedFields:
  - {manager: kubectl-edit, operation: Update, time: "1970-01-01T00:33:10Z", fieldsV1: {f:spec: {}}}
  - {manager: argocd-controller, operation: Apply, time: "1970-01-01T00:16:00Z", fieldsV1: {f:spec: {}}}
  - {manager: demoapp-controller, operation: Apply, subresource: status, time: "1970-01-01T00:16:00Z", fieldsV1: {f:status: {}}}
status:
  deployedRelease: {name: web, revision: 3, chart: demo-app, chartVersion: 0.1.0}
  history:
  - {time: "1970-01-01T00:51:00Z", action: Upgrade, outcome: Failed, reason: SpecGenerationChanged, generation: 5}
  - {time: "1970-01-01T00:50:10Z", action: Repair, outcome: Succeeded, revision: 3, reason: Drift}
  - {time: "1970-01-01T00:33:20Z", action: Upgrade, outcome: Succeeded, revision: 2, reason: SpecGenerationChanged, chartVersion: 0.1.0, generation: 2, changed: [values.message], changedMore: 3}
`)
	records := []recorded{
		{revision: 1, status: "superseded", labels: ours(1)},
		{revision: 2, status: "superseded", labels: ours(2)},
		{revision: 3, status: "deployed"},
		{revision: 4, status: "deployed", labels: ours(4), held: true},
		{revision: 9, status: "deployed", labels: map[string]string{record.OwnerLabel: "another"}},
	}
	tests := []struct {
		name    string
		records []recorded
		want    string
	}{
		{"status and records", records, `
0 Upgrade Failed SpecGenerationChanged by= changed=
3 Repair Succeeded Drift by= changed=
3  deployed Rollback to 1 by=helm changed=
2 Upgrade Succeeded SpecGenerationChanged by=kubectl-edit changed=values.message,3 more
1  superseded  by=argocd-controller changed=
`},
		{"only the status", nil, `
0 Upgrade Failed SpecGenerationChanged by= changed=
3 Repair Succeeded Drift by= changed=
2 Upgrade Succeeded SpecGenerationChanged by=kubectl-edit changed=values.message,3 more
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			history := clusterWith(t, test.records...).HistoryOf(t.Context(), app)
			expect.NoError(t, history.Err)
			got := "\n"
			for _, line := range history.Lines {
				got += fmt.Sprintf("%d %s %s %s by=%s changed=%s\n", line.Revision, line.Action, line.Outcome, line.Reason, line.By, strings.Join(line.Changed, ","))
			}
			expect.Equal(t, "history", test.want, got)
		})
	}
}

func clusterWith(t *testing.T, records ...recorded) *inspect.Cluster {
	t.Helper()
	kube := kubefake.NewClientset()
	for _, r := range records {
		expect.NoError(t, kube.Tracker().Add(r.secret(t)))
	}
	return inspect.New(inspect.Clients{Kubernetes: kube}, operatorLease)
}

func TestCompareRevisions(t *testing.T) {
	app := objectOf(t, "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: web, uid: app}, spec: {message: b, env: c}}")
	secret := func(key string) string {
		return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {apiKey: " + key + "}\n"
	}
	deployment := func(replicas int, env string) string {
		return fmt.Sprintf("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: %d, env: %q, list: [{name: DB_PASSWORD, value: of-the-name-%[1]d}, "+
			"{name: LEVEL, value: of-a-secret-%[1]d}]}\n", replicas, env)
	}
	// The spec does not have these values, so they may be from a Secret.
	extra := func(value string) []any { return []any{map[string]any{"name": "LEVEL", "value": value}} }
	service := "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
	records := []recorded{
		{
			revision: 1, status: "superseded", manifest: secret("hunter2hunter") + deployment(1, "key=hunter2hunter") + service,
			values: map[string]any{"message": "a", "extra": extra("of-a-secret-1"), "license": "hunter2hunter", "db": map[string]any{"password": "abc"}},
		},
		{
			revision: 2, status: "deployed", manifest: secret("letmeinplease") + deployment(2, "key=letmeinplease"),
			values: map[string]any{"message": "b", "extra": extra("of-a-secret-2"), "license": "letmeinplease", "db": map[string]any{"password": "abc"}},
		},
	}
	tests := []struct {
		name         string
		from, to     int
		mask         inspect.Mask
		says, silent []string
		err          string
	}{
		{
			name: "secrets are masked", from: 1, to: 2,
			says: []string{
				"-message: a", "+message: b", "-license: '*** (before)'", "+license: '*** (after)'", " password: '***'", "-  replicas: 1", "+  replicas: 2",
				"--- Service/web\trevision 1\n+++ /dev/null", "-  apiKey: '*** (before)'", "-  env: '*** (before)'",
			},
			silent: []string{"hunter2", "letmein", "abc", "of-the-name", "of-a-secret", base64.StdEncoding.EncodeToString([]byte("hunter2hunter"))},
		},
		{name: "secrets are shown", from: 1, to: 0, mask: inspect.Mask{Show: true}, says: []string{"-license: hunter2hunter", "+license: letmeinplease"}},
		{name: "secret paths", from: 1, to: 2, mask: inspect.Mask{Paths: [][]string{{"message"}}}, says: []string{"-message: '*** (before)'"}},
		{name: "equal", from: 2, to: 0},
		{name: "no record", from: 7, to: 0, err: "revision 7 has no record; the recorded revisions are 2, 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, err := inspect.Differ{Cluster: clusterWith(t, records...), Mask: test.mask}.CompareRevisions(t.Context(), app, test.from, test.to)
			if test.err != "" {
				expect.Contains(t, "error", fmt.Sprint(err), test.err)
				return
			}
			expect.NoError(t, err)
			got := found.Values.Unified("revision 1", "revision 2")
			for _, object := range found.Objects {
				got += object.Unified("revision 1", "revision 2")
			}
			expect.Equal(t, "differs", test.says != nil, got != "")
			for _, text := range test.says {
				expect.Contains(t, "difference", got, text)
			}
			for _, text := range test.silent {
				if strings.Contains(got, text) {
					t.Errorf("the difference shows %q:\n%s", text, got)
				}
			}
		})
	}
}
