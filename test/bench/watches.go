// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

const (
	watchesGroup = "bench.example.com"

	// othersNamespaces is the number of namespaces of others, and othersBytes the size of each of their objects.
	othersNamespaces = 5
	othersBytes      = 1 << 10
)

// watchesChart has three objects, none of which has a controller in the cluster that would add to the cost.
var watchesChart = map[string]string{ //nolint:gosec // The Secret of the chart has no credential.
	"Chart.yaml":  "apiVersion: v2\nname: small\nversion: 1.0.0\n",
	"values.yaml": "message: first\n",
	"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
data:
  key: {{ .Values.message | b64enc }}
`,
	"templates/configmap.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message | quote }}
`,
	"templates/service.yaml": `apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{port: 80}]
`,
}

// watchesCRD and watchesAccess are what the kind of a number needs; %[1]s is the group and %[2]s the plural name.
const (
	watchesCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[2]s, singular: %[4]s, listKind: %[3]sList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
`
	watchesAccess = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench}
rules:
- {apiGroups: [%[1]s], resources: ["*"], verbs: [list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench}
subjects:
- {kind: ServiceAccount, name: demoapp-controller, namespace: %[2]s}
`
)

// watchesBench measures releases of many kinds of watches.yaml.
type watchesBench struct {
	*bench

	kinds, each int
	dynamic     dynamic.Interface
	states      states
}

// watchesFigures are the figures of one run. Requests are without lists and watches.
type watchesFigures struct {
	floorInstall, floorUpgrade time.Duration
	install, upgrade, delete   phaseCost
	idle, restart              phaseCost
	rss                        int64
	heap, heapOthers, heapHelm int64
	heapRestarted, heapDemoApp int64
}

// phaseCost is what a phase costs the operator.
type phaseCost struct {
	took, cpu time.Duration
	requests  float64
}

// measureWatches measures kinds x each releases on a control plane of its own, and prints a report as Markdown.
func measureWatches(ctx context.Context, o options, s size, binary string) error {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // The control plane is stopped after the end of ctx, too.
		if err := c.Stop(); err != nil {
			log.Print(err)
		}
	}()
	b, err := newWatchesBench(ctx, c, o, s)
	if err != nil {
		return err
	}
	defer b.close()
	f, err := b.run(ctx, binary)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.operatorLog())
	}
	fmt.Print(b.report(f))
	return nil
}

func newWatchesBench(ctx context.Context, c *cluster.Cluster, o options, s size) (*watchesBench, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &watchesBench{
		bench: &bench{options: o, size: s.apps * s.rounds, cluster: c, config: c.AdminConfig(), kube: c.Client, dir: dir, stop: stop},
		kinds: s.apps, each: s.rounds, dynamic: c.Dynamic,
	}
	if err := b.deploy(ctx); err != nil {
		return nil, err
	}
	for i := range b.kinds {
		informer := dynamicinformer.NewFilteredDynamicInformer(b.dynamic, b.resource(i), metav1.NamespaceAll, 0, nil, nil).Informer()
		if _, err := informer.AddEventHandler(b.states.handler(b.kind(i))); err != nil {
			return nil, err
		}
		go informer.RunWithContext(watching)
	}
	return b, nil
}

func (b *watchesBench) kind(i int) string { return fmt.Sprintf("Bench%02d", i%b.kinds) }

func (b *watchesBench) resource(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: watchesGroup, Version: "v1", Resource: strings.ToLower(b.kind(i)) + "s"}
}

// deploy writes the chart and watches.yaml, and applies what the operator needs. There is no CRD of DemoApps.
func (b *watchesBench) deploy(ctx context.Context) error {
	var crds, entries strings.Builder
	chart := filepath.Join(b.dir, "chart")
	for i := range b.kinds {
		kind := b.kind(i)
		fmt.Fprintf(&crds, watchesCRD, watchesGroup, b.resource(i).Resource, kind, strings.ToLower(kind))
		fmt.Fprintf(&entries, "- {group: %s, version: v1, kind: %s, chart: %q}\n", watchesGroup, kind, chart)
	}
	files := map[string]string{
		"crds.yaml": crds.String(), "watches.yaml": entries.String(),
		"access.yaml": fmt.Sprintf(watchesAccess, watchesGroup, operatorNamespace),
	}
	for name, content := range watchesChart {
		files[filepath.Join("chart", name)] = content
	}
	for name, content := range files {
		path := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := b.cluster.InstallCRDs(ctx, filepath.Join(b.dir, "crds.yaml")); err != nil {
		return err
	}
	deploy := filepath.Join(b.options.root, "artifacts", "deploy")
	for _, file := range []string{filepath.Join(deploy, "00-namespace.yaml"), filepath.Join(deploy, "10-rbac.yaml"), filepath.Join(b.dir, "access.yaml")} {
		if err := b.cluster.ApplyFiles(ctx, "", file); err != nil {
			return err
		}
	}
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	b.args = []string{
		"--kubeconfig=" + kubeconfig, fmt.Sprintf("--workers=%d", b.options.workers), "--resync-period=24h",
		"--watches-file=" + filepath.Join(b.dir, "watches.yaml"),
	}
	return b.cluster.WriteServiceAccountKubeconfig(ctx, operatorNamespace, "demoapp-controller", kubeconfig)
}

// run measures all phases.
func (b *watchesBench) run(ctx context.Context, binary string) (f watchesFigures, err error) {
	phases := []struct {
		name string
		run  func() error
	}{
		{"sample", func() error { return b.sampleRelease(ctx, binary) }},
		{"floor", func() error { return b.runFloor(ctx, &f) }},
		{"start", func() error { return b.startOperator(ctx, binary) }},
		{"install", func() error {
			return b.phase(ctx, &f.install, func() error { return b.createAll(ctx, benchNamespace, nil) }, isDeployed)
		}},
		{"settle", func() error { return b.quiet(ctx) }},
		{"idle", func() error { return b.observeIdle(ctx, &f) }},
		{"upgrade", func() error {
			return b.phase(ctx, &f.upgrade, func() error { return b.changeAll(ctx, benchNamespace, nil) }, isUpgraded)
		}},
		{"memory", func() error { return b.measureMemory(ctx, binary, &f) }},
		{"delete", func() error { return b.phase(ctx, &f.delete, func() error { return b.deleteAllOf(ctx) }, nil) }},
	}
	for _, phase := range phases {
		started := time.Now()
		if err := phase.run(); err != nil {
			return f, fmt.Errorf("%s: %w", phase.name, err)
		}
		log.Printf("%d kinds with %d releases each: %s took %s", b.kinds, b.each, phase.name, time.Since(started).Round(time.Second))
	}
	return f, b.stopOperator()
}

// sampleRelease installs one release and reads its shape for the floor, which uses the first kind alone.
func (b *watchesBench) sampleRelease(ctx context.Context, binary string) error {
	if err := b.startOperator(ctx, binary); err != nil {
		return err
	}
	const name = "sample"
	resources := b.dynamic.Resource(b.resource(0)).Namespace(benchNamespace)
	if _, err := resources.Create(ctx, b.custom(0, name), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.states.await(ctx, 1, isDeployed); err != nil {
		return err
	}
	b.shape.name, b.shape.owner = name, b.resource(0)
	for _, resource := range []string{"secrets", "configmaps", "services"} {
		live, err := b.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(benchNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body, err := applied(live)
		if err != nil {
			return err
		}
		b.shape.objects = append(b.shape.objects, object{resource: schema.GroupVersionResource{Version: "v1", Resource: resource}, body: body})
	}
	record, err := b.kube.CoreV1().Secrets(benchNamespace).Get(ctx, "sh.helm.release.v1."+name+".v1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	b.shape.record = record.Data["release"]
	live, err := resources.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if b.shape.status, err = json.Marshal(map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(),
		"metadata": map[string]any{"name": name, "namespace": benchNamespace}, "status": live.Object["status"],
	}); err != nil {
		return err
	}
	if err := resources.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := b.states.await(ctx, 0, nil); err != nil {
		return err
	}
	return b.stopOperator()
}

// runFloor measures the floor. All its releases are of the first kind.
func (b *watchesBench) runFloor(ctx context.Context, f *watchesFigures) error {
	sender, err := b.newFloor()
	if err != nil {
		return err
	}
	first := &watchesBench{bench: b.bench, kinds: 1, dynamic: b.dynamic}
	if f.floorInstall, err = b.work(ctx, func(then func(string)) error { return first.createAll(ctx, floorNamespace, then) }, sender.install); err != nil {
		return err
	}
	if f.floorUpgrade, err = b.work(ctx, func(then func(string)) error { return first.changeAll(ctx, floorNamespace, then) }, sender.upgrade); err != nil {
		return err
	}
	// Namespaces are not removed while finalizers are left.
	if err := b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(0)).Namespace(floorNamespace).Patch(ctx, appName(i), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}); err != nil {
		return err
	}
	return b.clear(ctx)
}

// phase measures a phase of the operator until all custom resources are in the state; a nil state waits until none is
// left.
func (b *watchesBench) phase(ctx context.Context, cost *phaseCost, load func() error, state func(*unstructured.Unstructured) bool) (err error) {
	cost.took, cost.cpu, cost.requests, err = b.cost(ctx, func() error {
		if err := load(); err != nil {
			return err
		}
		if state == nil {
			return b.states.await(ctx, 0, nil)
		}
		return b.states.await(ctx, b.size, state)
	})
	return err
}

// observeIdle measures the operator at rest, and its memory.
func (b *watchesBench) observeIdle(ctx context.Context, f *watchesFigures) (err error) {
	lists, err := b.process.sum(ctx, "rest_client_requests_total")
	if err != nil {
		return err
	}
	if err := b.phase(ctx, &f.idle, func() error { return wait(ctx, b.options.idle) }, isDeployed); err != nil {
		return err
	}
	after, err := b.process.sum(ctx, "rest_client_requests_total")
	if err != nil {
		return err
	}
	log.Printf("at rest: %.0f requests with lists and new watches", after-lists)
	f.rss, err = b.process.rss()
	return err
}

// measureMemory measures live objects with growing numbers of others' objects, then restarts the operator, without and
// with the CRD of DemoApps.
func (b *watchesBench) measureMemory(ctx context.Context, binary string, f *watchesFigures) (err error) {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	if f.heap, err = b.process.heap(ctx); err != nil {
		return err
	}
	if err := b.createOthers(ctx, "plain", nil); err != nil {
		return err
	}
	if f.heapOthers, err = b.settledHeap(ctx); err != nil {
		return err
	}
	helm := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	if err := b.createOthers(ctx, "helm", helm); err != nil {
		return err
	}
	if f.heapHelm, err = b.settledHeap(ctx); err != nil {
		return err
	}
	if f.restart, err = b.restartOnce(ctx, binary); err != nil {
		return err
	}
	if f.heapRestarted, err = b.settledHeap(ctx); err != nil {
		return err
	}
	if err := b.cluster.InstallCRDs(ctx, filepath.Join(b.options.root, "artifacts", "crds")); err != nil {
		return err
	}
	if _, err = b.restartOnce(ctx, binary); err != nil {
		return err
	}
	f.heapDemoApp, err = b.settledHeap(ctx)
	return err
}

// restartOnce restarts the operator and waits until it has reconciled every custom resource.
func (b *watchesBench) restartOnce(ctx context.Context, binary string) (cost phaseCost, err error) {
	if err := b.stopOperator(); err != nil {
		return cost, err
	}
	started := time.Now()
	if err := b.startOperator(ctx, binary); err != nil {
		return cost, err
	}
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		reconciles, err := b.process.sum(ctx, "controller_reconcile_total")
		if err != nil {
			return false, err
		}
		waiting, err := b.process.sum(ctx, "workqueue_depth")
		return err == nil && int(reconciles) >= b.size && waiting == 0, err
	})
	if err != nil {
		return cost, err
	}
	cost.took = time.Since(started)
	if cost.requests, err = b.requests(ctx); err != nil {
		return cost, err
	}
	cost.cpu, err = b.process.cpu()
	return cost, err
}

// settledHeap waits until watches have delivered all events, and returns the size of the live objects.
func (b *watchesBench) settledHeap(ctx context.Context) (int64, error) {
	const delivery = 5 * time.Second
	if err := wait(ctx, delivery); err != nil {
		return 0, err
	}
	return b.process.heap(ctx)
}

// createOthers creates Secrets and ConfigMaps that belong to no release of the operator.
func (b *watchesBench) createOthers(ctx context.Context, prefix string, labels map[string]string) error {
	namespace := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i%othersNamespaces) }
	for i := range othersNamespaces {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}
		if _, err := b.kube.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	text := strings.Repeat("x", othersBytes)
	return b.bench.each(ctx, b.options.others, func(ctx context.Context, i int) error {
		about := metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("other-%05d", i), Labels: labels}
		secret := &corev1.Secret{ObjectMeta: about, StringData: map[string]string{"key": text}}
		if _, err := b.kube.CoreV1().Secrets(about.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		config := &corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{"key": text}}
		_, err := b.kube.CoreV1().ConfigMaps(about.Namespace).Create(ctx, config, metav1.CreateOptions{})
		return err
	})
}

// custom returns the custom resource of a number.
func (b *watchesBench) custom(i int, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": watchesGroup + "/v1", "kind": b.kind(i), "metadata": map[string]any{"name": name},
		"spec": map[string]any{"message": "first"},
	}}
}

// createAll creates all custom resources, the kinds in turn, and calls then for each.
func (b *watchesBench) createAll(ctx context.Context, namespace string, then func(name string)) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(i)).Namespace(namespace).Create(ctx, b.custom(i, appName(i)), metav1.CreateOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

// changeAll changes one object of each release.
func (b *watchesBench) changeAll(ctx context.Context, namespace string, then func(name string)) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(i)).Namespace(namespace).Patch(ctx, appName(i), types.MergePatchType,
			[]byte(`{"spec":{"message":"second"}}`), metav1.PatchOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

func (b *watchesBench) deleteAllOf(ctx context.Context) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		return b.dynamic.Resource(b.resource(i)).Namespace(benchNamespace).Delete(ctx, appName(i), metav1.DeleteOptions{})
	})
}

// report returns the figures as a section of docs/benchmarks.md.
func (b *watchesBench) report(f watchesFigures) string {
	var page strings.Builder
	fmt.Fprintf(&page, "%d kinds with %d releases each of a chart with 3 objects, on %s, %s.\n\n", b.kinds, b.each, machine(), time.Now().Format(time.DateOnly))
	page.WriteString("| phase | requests for each release | operator's CPU | time, relative to the floor |\n|---|---|---|---|\n")
	row := func(name string, cost phaseCost, floor time.Duration) {
		ratio := ""
		if floor > 0 {
			ratio = fmt.Sprintf("%.2f", float64(cost.took)/float64(floor))
		}
		fmt.Fprintf(&page, "| %s | %.2f | %.1f ms for each | %s |\n", name, cost.requests/float64(b.size), milliseconds(cost.cpu)/float64(b.size), ratio)
	}
	row("install (C = 3)", f.install, f.floorInstall)
	row("upgrade (k = 1)", f.upgrade, f.floorUpgrade)
	row("delete (N = 3)", f.delete, 0)
	row("restart", f.restart, 0)
	fmt.Fprintf(&page, "| rest, %.0f s | %.0f in all | %.2f s per minute in all | |\n\n", b.options.idle.Seconds(), f.idle.requests,
		f.idle.cpu.Seconds()*float64(time.Minute)/float64(f.idle.took))
	mib := func(bytes int64) float64 { return float64(bytes) / mebibyte }
	fmt.Fprintf(&page, "RSS at rest: %.0f MiB.\n\n| live objects on the heap, after GC | MiB | growth |\n|---|---|---|\n", mib(f.rss))
	fmt.Fprintf(&page, "| %d releases | %.1f | |\n", b.size, mib(f.heap))
	fmt.Fprintf(&page, "| and %d Secrets and %d ConfigMaps of others | %.1f | %.1f |\n", b.options.others, b.options.others, mib(f.heapOthers), mib(f.heapOthers-f.heap))
	fmt.Fprintf(&page, "| and %d Secrets and %d ConfigMaps of others with Helm's label | %.1f | %.1f |\n", b.options.others, b.options.others,
		mib(f.heapHelm), mib(f.heapHelm-f.heapOthers))
	fmt.Fprintf(&page, "| the same after a restart | %.1f | %.1f |\n", mib(f.heapRestarted), mib(f.heapRestarted-f.heapHelm))
	fmt.Fprintf(&page, "| the same after a restart with the CRD of DemoApps | %.1f | %.1f |\n", mib(f.heapDemoApp), mib(f.heapDemoApp-f.heapRestarted))
	return page.String()
}

// wait waits for a time.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// states has the newest version of each custom resource. The zero value is ready to use.
type states struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
}

func (s *states) handler(kind string) cache.ResourceEventHandler {
	set := func(object any, gone bool) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		custom, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		key := kind + "/" + custom.GetNamespace() + "/" + custom.GetName()
		if s.objects == nil {
			s.objects = map[string]*unstructured.Unstructured{}
		}
		if gone {
			delete(s.objects, key)
		} else {
			s.objects[key] = custom
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object, false) },
		UpdateFunc: func(_, after any) { set(after, false) },
		DeleteFunc: func(object any) { set(object, true) },
	}
}

// await returns when count custom resources of benchNamespace are in the state; a nil state counts all.
func (s *states) await(ctx context.Context, count int, state func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	return poll(ctx, countInterval, func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		got := 0
		for _, object := range s.objects {
			if object.GetNamespace() == benchNamespace && (state == nil || state(object)) {
				got++
			}
		}
		return got == count, nil
	})
}

// isDeployed reports whether the current spec is deployed.
func isDeployed(object *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	var typed releasev1alpha1.ReleaseStatus
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed)
	return err == nil && typed.ObservedGeneration == object.GetGeneration() &&
		meta.IsStatusConditionTrue(typed.Conditions, releasev1alpha1.ConditionDeployed)
}

// isUpgraded reports whether the changed spec is deployed.
func isUpgraded(object *unstructured.Unstructured) bool {
	message, _, _ := unstructured.NestedString(object.Object, "spec", "message")
	return message == "second" && isDeployed(object)
}
