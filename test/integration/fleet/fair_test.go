// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	fairGroup = "fair.example.com"
	// samples is the number of corrections, and of installs, in each measurement.
	samples = 15
	// hashes, waits and things are the releases of the heavy namespace.
	hashes, waits, things = 12, 12, 17
	// mostRatio is a wide bound of the medians, because the machine has other work. docs/capacity.md has
	// the ratios of a quiet machine.
	mostRatio = 8
	// mostRequests bounds the requests in a minute for the kind that cannot be listed, in multiples of
	// its releases.
	mostRequests = 10
)

// fairKinds are the kinds of the test and the templates of their charts.
var fairKinds = map[string]string{
	"Quick": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: '3'}\n",
	// The budget of one rendering is 10 seconds, and htpasswd counts 50 ms.
	"Hash": `{{ $hash := "" }}{{ range until 199 }}{{ $hash = htpasswd "user" (toString .) }}{{ end }}` +
		"\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {hash: {{ $hash | quote }}}\n",
	// No controller runs the Job, so the hook waits until its timeout.
	"Wait": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}, annotations: {helm.sh/hook: pre-install}}\n" +
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: 'registry.invalid/a:1'}]}}}\n",
	"Use": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: '3'}\n---\n" +
		"apiVersion: fair.example.com/v2\nkind: Thing\nmetadata: {name: {{ .Release.Name }}}\n",
}

const fairPermissions = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fair-test}
rules:
  - {apiGroups: [fair.example.com], resources: ["*"], verbs: [get, list, watch, create, patch, delete]}
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fair-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fair-test}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`

// TestHeavyNamespaceDelaysNobody measures corrections of drift and installs in one namespace, first
// alone and then with a namespace that has the heaviest possible load: charts that hash passwords up
// to the budget, hooks that wait, and releases with an object whose kind cannot be listed. Both
// measurements begin with a restart of the operator.
func TestHeavyNamespaceDelaysNobody(t *testing.T) {
	f := newFairness(t)
	operator := f.start()
	f.create(f.heavy, "Use", things)
	f.awaitReady(f.heavy, "Use", things)
	f.create(f.other, "Quick", samples)
	f.awaitReady(f.other, "Quick", samples)
	operator.Stop()
	operator = f.start()
	undisturbed := f.measure("a")
	operator.Stop()
	f.breakConversion()
	f.create(f.heavy, "Hash", hashes)
	f.create(f.heavy, "Wait", waits)

	operator = f.start()
	begun := time.Now()
	disturbed := f.measure("b")

	if ready := f.ready(f.heavy, "Hash"); ready == hashes {
		t.Errorf("all %d charts are rendered, so the namespace was not heavy", ready)
	}
	for i, what := range []string{"correction", "install"} {
		alone, beside := undisturbed[i], disturbed[i]
		ratio := float64(median(beside)) / float64(median(alone))
		t.Logf("%s: median %v beside %v (x %.1f), worst %v beside %v (x %.1f)", what, median(beside), median(alone), ratio,
			slices.Max(beside), slices.Max(alone), float64(slices.Max(beside))/float64(slices.Max(alone)))
		if ratio > mostRatio {
			t.Errorf("a %s takes %.1f times as long beside a heavy namespace, want at most %d", what, ratio, mostRatio)
		}
	}
	f.untilCorrected(f.heavy, "use-0") // The other objects of the release are observed.
	f.createNamed(f.heavy, "Use", "late")
	f.awaitFailure("Use", "late", "Thing")
	f.assertFewRequests(operator, begun)
}

// fairness is a heavy namespace and another one.
type fairness struct {
	*testing.T

	heavy, other, file string
}

func newFairness(t *testing.T) *fairness {
	t.Helper()
	f := &fairness{T: t, heavy: shared.Namespace(t), other: shared.Namespace(t), file: filepath.Join(t.TempDir(), "watches.yaml")}
	var entries strings.Builder
	for kind, template := range fairKinds {
		dir := filepath.Join(t.TempDir(), strings.ToLower(kind))
		f.write(filepath.Join(dir, "Chart.yaml"), "apiVersion: v2\nname: "+strings.ToLower(kind)+"\nversion: 1.0.0\n")
		f.write(filepath.Join(dir, "templates", "object.yaml"), template)
		fmt.Fprintf(&entries, "- {group: %s, version: v1, kind: %s, chart: %s}\n", fairGroup, kind, dir)
		f.install(kind, "v1")
	}
	f.write(f.file, entries.String())
	f.install("Thing", "v1", "v2")
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	f.write(roles, fairPermissions)
	f.check(shared.ApplyFiles(t.Context(), "", roles))
	return f
}

func (f *fairness) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fairness) write(path, text string) {
	f.Helper()
	f.check(errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
}

// install installs the CRD of a kind. The first version is stored.
func (f *fairness) install(kind string, versions ...string) {
	f.Helper()
	name := strings.ToLower(kind)
	text := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %[1]ss.%[2]s}\nspec:\n"+
		"  group: %[2]s\n  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]ss, singular: %[1]s}\n  scope: Namespaced\n  versions:\n", name, fairGroup, kind)
	for i, version := range versions {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, subresources: {status: {}}, schema: "+
			"{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n", version, i == 0)
	}
	path := filepath.Join(f.TempDir(), name+".yaml")
	f.write(path, text)
	f.check(shared.InstallCRDs(f.Context(), path))
}

func (f *fairness) start() *cluster.Operator {
	return cluster.StartOperator(f.Context(), f.T, shared, "--watches-file="+f.file)
}

func (f *fairness) client(namespace, kind string) dynamic.ResourceInterface {
	return shared.Dynamic.Resource(schema.GroupVersionResource{Group: fairGroup, Version: "v1", Resource: strings.ToLower(kind) + "s"}).Namespace(namespace)
}

func (f *fairness) create(namespace, kind string, count int) {
	f.Helper()
	for i := range count {
		f.createNamed(namespace, kind, fmt.Sprintf("%s-%d", strings.ToLower(kind), i))
	}
}

func (f *fairness) createNamed(namespace, kind, name string) {
	f.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetAPIVersion(fairGroup + "/v1")
	object.SetKind(kind)
	object.SetName(name)
	_, err := f.client(namespace, kind).Create(f.Context(), object, metav1.CreateOptions{})
	f.check(err)
}

// ready returns the number of custom resources that are ready.
func (f *fairness) ready(namespace, kind string) (ready int) {
	f.Helper()
	list, err := f.client(namespace, kind).List(f.Context(), metav1.ListOptions{})
	f.check(err)
	for _, object := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		if slices.ContainsFunc(conditions, func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == "Ready" && fields["status"] == "True"
		}) {
			ready++
		}
	}
	return ready
}

func (f *fairness) awaitReady(namespace, kind string, count int) {
	f.Helper()
	cluster.Eventually(f.Context(), f.T, kind+"s ready", func(context.Context) (bool, error) {
		ready := f.ready(namespace, kind)
		return ready == count, fmt.Errorf("%d are ready", ready)
	})
}

// awaitFailure waits until a release of the heavy namespace has failed because of an object.
func (f *fairness) awaitFailure(kind, name, object string) {
	f.Helper()
	cluster.Eventually(f.Context(), f.T, kind+" "+name+" failed", func(ctx context.Context) (bool, error) {
		live, err := f.client(f.heavy, kind).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		failures, _, _ := unstructured.NestedInt64(live.Object, "status", "failures", "consecutive")
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		return failures > 0 && strings.Contains(fmt.Sprint(conditions), object+" "+f.heavy+"/"+name), fmt.Errorf("status is %v", live.Object["status"])
	})
}

// breakConversion has the API server convert Things by a webhook that does not answer. It then
// answers 500 to each list and watch of version v2.
func (f *fairness) breakConversion() {
	f.Helper()
	crds := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := crds.Patch(f.Context(), "things."+fairGroup, types.MergePatchType, []byte(
		`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}}}}`),
		metav1.PatchOptions{})
	f.check(err)
	things := shared.Dynamic.Resource(schema.GroupVersionResource{Group: fairGroup, Version: "v2", Resource: "things"})
	cluster.Eventually(f.Context(), f.T, "conversion broken", func(ctx context.Context) (bool, error) {
		_, err := things.List(ctx, metav1.ListOptions{})
		return err != nil, nil
	})
	f.Cleanup(func() { // The namespace cannot be deleted otherwise.
		_, err := crds.Patch(context.WithoutCancel(f.Context()), "things."+fairGroup, types.MergePatchType,
			[]byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`), metav1.PatchOptions{})
		f.check(err)
	})
}

// measure returns the times of corrections and of installs in the other namespace. Each release
// drifts once, because repeated drift of one object is corrected with pauses.
func (f *fairness) measure(name string) (times [2][]time.Duration) {
	f.Helper()
	for i := range samples {
		times[0] = append(times[0], f.untilCorrected(f.other, fmt.Sprintf("quick-%d", i)))
		installed := fmt.Sprintf("%s-%d", name, i)
		times[1] = append(times[1], f.until(f.other, installed, func() { f.createNamed(f.other, "Quick", installed) }))
	}
	return times
}

// untilCorrected changes a ConfigMap, and returns the time until the operator has corrected it.
func (f *fairness) untilCorrected(namespace, name string) time.Duration {
	f.Helper()
	return f.until(namespace, name, func() {
		_, err := shared.Client.CoreV1().ConfigMaps(namespace).Patch(f.Context(), name, types.MergePatchType,
			[]byte(`{"data":{"size":"4"}}`), metav1.PatchOptions{FieldManager: "theirs"})
		f.check(err)
	})
}

// until returns the time from a change until the operator has written a ConfigMap.
func (f *fairness) until(namespace, name string, change func()) time.Duration {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), cluster.DefaultTimeout)
	defer cancel()
	maps := shared.Client.CoreV1().ConfigMaps(namespace)
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := maps.List(ctx, options)
	f.check(err)
	options.ResourceVersion = list.ResourceVersion
	changes, err := maps.Watch(ctx, options)
	f.check(err)
	defer changes.Stop()
	change()
	begun := time.Now()
	for event := range changes.ResultChan() {
		if object, ok := event.Object.(*corev1.ConfigMap); ok && object.Data["size"] == "3" {
			return time.Since(begun)
		}
	}
	f.Fatalf("ConfigMap %s was not written", name)
	return 0
}

// assertFewRequests asserts that the operator seldom asks for unreadable objects.
func (f *fairness) assertFewRequests(operator *cluster.Operator, since time.Time) {
	f.Helper()
	requests, err := shared.AuditRequests(since, func(e cluster.AuditEvent) bool { return cluster.ByProcess(operator)(e) && e.Resource == "things" })
	f.check(err)
	minutes := time.Since(since).Minutes()
	f.Logf("%d requests for things in %.1f minutes, %d releases have one", len(requests), minutes, things)
	if limit := mostRequests * things * max(1, minutes); float64(len(requests)) > limit {
		f.Errorf("the operator sent %d requests for things, want at most %.0f", len(requests), limit)
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}
