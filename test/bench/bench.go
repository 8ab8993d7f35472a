// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// namespace has all custom resources.
	namespace = "bench"
	// auditNamespace is the operator's default.
	auditNamespace = "demoapp-audit"
	// sampleName has as many characters as the names of the custom resources that are measured.
	sampleName = "smp-00000"
	// warmUpSize is the number of custom resources of the round that does not count.
	warmUpSize = 100
	// nodes is the number of simulated nodes, which have room for the pods of all custom resources.
	nodes = 10
	// phaseTimeout bounds each wait for all custom resources.
	phaseTimeout = 2 * time.Hour
)

func appName(i int) string { return fmt.Sprintf("app-%05d", i) }

// bench measures one load on a control plane of its own.
type bench struct {
	options

	// count is the number of custom resources of the current round.
	count   int
	t       *cluster.MainTest
	failing sync.Mutex
	cluster *cluster.Cluster
	subject
	// store has the metadata of all custom resources. The generation is 0 while the current one is
	// not ready.
	store cache.Store
	// plan is for the floor. drifting and driftedField are a child of the sample and a field that
	// its controller corrects.
	plan         plan
	drifting     string
	driftedField []string
}

// measure alternates two contenders on a new control plane. The first round warms the API server up
// and does not count. Each round begins with the other contender. The sample comes from the last
// contender.
func measure(ctx context.Context, o options, l load, contenders []contender) result {
	contenders = slices.Clone(contenders)
	b := &bench{options: o, t: &cluster.MainTest{}}
	defer b.t.CleanUp()
	b.start(ctx, l.kind)
	b.takeSample(ctx, contenders[len(contenders)-1])
	r := result{load: l, rounds: map[string][]round{}}
	for i := range l.rounds + 1 {
		b.count = l.count
		if i == 0 {
			b.count = min(l.count, warmUpSize)
		}
		for _, c := range contenders {
			began := time.Now()
			figures := b.round(ctx, c, i == 0, i == l.rounds)
			log.Printf("%s, round %d of %d: %s took %s", l, i, l.rounds, c.name, time.Since(began).Round(time.Second))
			if i > 0 {
				r.rounds[c.name] = append(r.rounds[c.name], figures)
			}
		}
		slices.Reverse(contenders)
	}
	return r
}

// check ends the benchmark after an error: it stops the control plane and shows the operator's log.
// It may be called by several goroutines; the first error counts.
func (b *bench) check(err error) {
	if err != nil {
		b.failing.Lock()
		b.t.Fatal(err)
	}
}

// start starts the control plane and its watchers.
func (b *bench) start(ctx context.Context, kind string) {
	b.cluster = b.t.Start(cluster.Options{Nodes: nodes}) //nolint:contextcheck // It has the context of b.t.
	b.deploy(ctx, kind)
	b.createNamespace(ctx)
	watching, stop := context.WithCancel(ctx)
	b.t.Cleanup(stop)
	customs := dynamicinformer.NewFilteredDynamicInformer(b.cluster.Dynamic, b.resource, namespace, 0, nil, nil).Informer()
	b.check(customs.SetTransform(onlyReady))
	b.store = customs.GetStore()
	go customs.RunWithContext(watching)
	claims := informers.NewSharedInformerFactory(b.cluster.Client, 0)
	_, err := claims.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { b.createVolume(watching, object.(*corev1.PersistentVolumeClaim)) },
	})
	b.check(err)
	claims.StartWithContext(watching)
}

// customs is a client for the custom resources.
func (b *bench) customs() dynamic.ResourceInterface {
	return b.cluster.Dynamic.Resource(b.resource).Namespace(namespace)
}

// createVolume creates a volume for a claim without a class, because the control plane has no
// provisioner. No pod reads it, because nodes are simulated.
func (b *bench) createVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/bench"}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	if _, err := b.cluster.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		log.Printf("create a volume for the claim %s: %v", claim.Name, err)
	}
}

// client is for requests by path.
func (b *bench) client() rest.Interface { return b.cluster.Client.CoreV1().RESTClient() }

// createNamespace creates the namespace, with all objects of the example except the custom resource.
func (b *bench) createNamespace(ctx context.Context) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := b.cluster.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	b.check(err)
	for _, object := range b.beside {
		b.check(b.cluster.ApplyObject(ctx, namespace, object))
	}
}

// clear removes the objects of a contender, because the cost of a request grows with the number of
// objects. No operator runs that would remove finalizers.
func (b *bench) clear(ctx context.Context) {
	for _, resource := range b.involved {
		resources := b.cluster.Dynamic.Resource(resource).Namespace(namespace)
		list, err := resources.List(ctx, metav1.ListOptions{})
		b.check(err)
		b.each(0, len(list.Items), func(i int) {
			none := []byte(`{"metadata":{"finalizers":null}}`)
			_, err := resources.Patch(ctx, list.Items[i].GetName(), types.MergePatchType, none, metav1.PatchOptions{})
			if !apierrors.IsNotFound(err) { // The garbage collector may be faster.
				b.check(err)
			}
		})
	}
	core := b.cluster.Client.CoreV1()
	b.check(core.Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	b.check(poll(ctx, time.Second, func() bool {
		_, err := core.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}))
	b.check(core.PersistentVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	// The operator removes records when a namespace has too many, and the floor writes each round's
	// under the same names.
	b.check(core.ConfigMaps(auditNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	b.createNamespace(ctx)
}

// each runs work for the numbers from first to end-1 with as many workers as the operator has.
func (b *bench) each(first, end int, work func(i int)) {
	var workers errgroup.Group
	workers.SetLimit(b.workers)
	for i := first; i < end; i++ {
		workers.Go(func() error {
			work(i)
			return nil
		})
	}
	_ = workers.Wait() // There are no errors.
}

// onlyReady keeps of a custom resource the metadata that the store has.
func onlyReady(object any) (any, error) {
	custom, ok := object.(*unstructured.Unstructured)
	if !ok { // An informer may transform an object again.
		return object, nil
	}
	about := metav1.ObjectMeta{Name: custom.GetName(), Namespace: custom.GetNamespace(), ResourceVersion: custom.GetResourceVersion()}
	if isReady(custom) {
		about.Generation = custom.GetGeneration()
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: about}, nil
}

// isReady reports whether the current generation is ready. A release must also be deployed.
func isReady(custom *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(custom.Object, "status", "conditions")
	ready := false
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		holds := condition["status"] == "True" && condition["observedGeneration"] == custom.GetGeneration()
		switch condition["type"] {
		case apimeta.ConditionReady:
			ready = holds
		case releasev1alpha1.ConditionDeployed:
			if !holds {
				return false
			}
		}
	}
	return ready
}

// anyState is the generation that also counts the custom resources that are not ready.
const anyState = 0

// await returns when exactly count custom resources are ready at a generation or a later one.
func (b *bench) await(ctx context.Context, count int, generation int64) {
	// The error of measured times. Counting many of them takes longer.
	interval := 20*time.Millisecond + time.Duration(b.count)*20*time.Microsecond
	err := poll(ctx, interval, func() bool { return b.ready(generation) == count })
	if err != nil {
		b.t.Fatalf("%d custom resources are ready at generation %d, want %d: %v", b.ready(generation), generation, count, err)
	}
}

// ready returns how many custom resources are ready at a generation or a later one.
func (b *bench) ready(generation int64) (count int) {
	for _, object := range b.store.List() {
		if object.(*metav1.PartialObjectMetadata).Generation >= generation {
			count++
		}
	}
	return count
}

// poll asks until the answer is yes, for at most phaseTimeout.
func poll(ctx context.Context, every time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) { return done(), nil })
}

// takeSample lets an operator install, upgrade and uninstall one custom resource, and records its
// writes for the floor.
func (b *bench) takeSample(ctx context.Context, c contender) {
	proxy, recorder := b.cluster.NewProxy(b.t), &recorder{} //nolint:contextcheck // It has the context of b.t.
	proxy.Refuse(recorder.record)
	sampled := measurement{bench: b, operators: b.startOperator(ctx, c, proxy)}
	uid := b.create(ctx, sampleName)
	b.plan = plan{Kubeconfig: b.cluster.Kubeconfig(), Workers: b.workers, Sample: uid, Writes: map[string][]write{}}
	record := func(phase string, generation int64) {
		b.await(ctx, 1, generation)
		sampled.quiet(ctx)
		b.plan.Writes[phase] = recorder.take()
		b.readUIDs(ctx, b.plan.Writes[phase])
	}
	record(installPhase, 1)
	b.drifting, b.driftedField = driftOf(b.plan.Writes[installPhase])
	if b.upgrade != "" {
		b.change(ctx, sampleName)
		record(upgradePhase, upgradedGeneration)
	}
	b.check(b.customs().Delete(ctx, sampleName, metav1.DeleteOptions{}))
	b.await(ctx, 0, anyState)
	b.plan.Writes[uninstallPhase] = recorder.take()
	sampled.operators.stop()
	b.clear(ctx)
}

// load is a number of objects of a kind, and how often it is measured.
type load struct {
	kind          string
	count, rounds int
}

func (l load) String() string { return fmt.Sprintf("%d of %s", l.count, l.kind) }

// loadPattern matches a number of objects, with a kind before it and a number of rounds after it.
var loadPattern = regexp.MustCompile(`^(?:([a-z]+)=)?([1-9][0-9]*)(?:x([1-9][0-9]*))?$`)

// parseLoads reads loads such as "200x5,website=1000": five rounds of 200 DemoApps, and one of
// 1,000 Websites.
func parseLoads(text string) (loads []load, err error) {
	for field := range strings.SplitSeq(text, ",") {
		found := loadPattern.FindStringSubmatch(field)
		if found == nil {
			return nil, fmt.Errorf("-sizes: %q must be a number such as 200, 200x5 or website=200x5", field)
		}
		l := load{kind: cmp.Or(found[1], demoApp)}
		l.count, _ = strconv.Atoi(found[2]) // The pattern has only digits.
		l.rounds, _ = strconv.Atoi(cmp.Or(found[3], "1"))
		loads = append(loads, l)
	}
	return loads, nil
}

// demoApp is the kind of artifacts/crds. Other kinds are named by their folders in artifacts/kinds.
const demoApp = "demoapp"

// extras are facts about a kind that its files do not have. set and upgrade are JSON merge patches:
// set changes the example, in which NAME is the name of the object, and upgrade changes a live
// object. A kind without upgrade has no such phase.
type extras struct {
	set, upgrade string
	// composed are the kinds of children that are custom resources.
	composed []string
}

// extrasOf has the kinds with extras. Releases have no pods, because the control plane's work on
// pods would hide theirs.
var extrasOf = map[string]extras{
	demoApp:     {set: `{"spec":{"replicaCount":0}}`, upgrade: `{"spec":{"message":"second"}}`},
	"memcached": {set: `{"spec":{"replicaCount":0}}`, upgrade: `{"spec":{"podAnnotations":{"example.com/team":"second"}}}`},
	"website":   {upgrade: `{"spec":{"html":"second"}}`},
	"webapp":    {upgrade: `{"spec":{"replicas":3}}`},
	"appconfig": {set: `{"spec":{"application":"NAME"}}`, upgrade: `{"spec":{"values":{"logLevel":"debug"}}}`},
	"appstack":  {composed: []string{"postgresql", "backup"}, upgrade: `{"spec":{"frontend":{"replicas":2}}}`},
	"ecommerceplatform": {
		composed: []string{"postgresql", "backup"},
		set:      `{"spec":{"ingress":{"host":"NAME.example.com"}}}`, upgrade: `{"spec":{"frontend":{"replicas":2}}}`,
	},
	"postgresql": {composed: []string{"backup"}},
}

// subject is the kind of a load as its files describe it.
type subject struct {
	extras

	resource schema.GroupVersionResource
	// involved are the resource and the resources of the composed kinds.
	involved []schema.GroupVersionResource
	// example is the custom resource of the example. The second field has the remaining objects of the file.
	example *unstructured.Unstructured
	beside  []*unstructured.Unstructured
	// flags are those that the operator needs for the kind.
	flags []string
}

// deploy installs the CRDs and the RBAC of a kind, and of the kinds that it is composed of, and
// reads the example.
func (b *bench) deploy(ctx context.Context, kind string) {
	b.extras = extrasOf[kind]
	b.set = cmp.Or(b.set, "{}")
	crds, example := []string{"artifacts/crds/demo.example.com_demoapps.yaml"}, "artifacts/examples/demoapp.yaml"
	access := []string{"artifacts/deploy/00-namespace.yaml", "artifacts/deploy/10-rbac.yaml"}
	if kind != demoApp {
		crds, example = nil, "artifacts/kinds/"+kind+"/example.yaml"
		for _, folder := range append([]string{kind}, b.composed...) {
			crds = append(crds, "artifacts/kinds/"+folder+"/crd.yaml")
			access = append(access, "artifacts/kinds/"+folder+"/rbac.yaml")
		}
		watches := "artifacts/kinds/" + kind + "/watches.yaml"
		if _, err := os.Stat(filepath.Join(b.cluster.Root(), watches)); err == nil {
			b.flags = append(b.flags, "--watches-file="+watches)
		}
	}
	b.check(b.cluster.InstallCRDs(ctx, crds...))
	b.check(b.cluster.ApplyFiles(ctx, "", access...))
	definitions, err := b.cluster.Objects(crds...)
	b.check(err)
	for _, crd := range definitions {
		served := schema.GroupKind{}
		served.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
		served.Kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "kind")
		mapping, err := b.cluster.Mapper.RESTMapping(served)
		b.check(err)
		b.involved = append(b.involved, mapping.Resource)
	}
	b.resource = b.involved[0]
	objects, err := b.cluster.Objects(example)
	b.check(err)
	for _, object := range objects {
		if object.GroupVersionKind().Group == b.resource.Group {
			b.example = object
		} else {
			b.beside = append(b.beside, object)
		}
	}
}

// create creates the custom resource of a name.
func (b *bench) create(ctx context.Context, name string) types.UID {
	custom := b.example.DeepCopy()
	custom.SetName(name)
	custom.SetNamespace(namespace)
	text, err := custom.MarshalJSON()
	b.check(err)
	text, err = jsonpatch.MergePatch(text, []byte(strings.ReplaceAll(b.set, "NAME", name)))
	b.check(err)
	b.check(custom.UnmarshalJSON(text))
	live, err := b.customs().Create(ctx, custom, metav1.CreateOptions{})
	b.check(err)
	return live.GetUID()
}

// change upgrades the custom resource of a name.
func (b *bench) change(ctx context.Context, name string) types.UID {
	live, err := b.customs().Patch(ctx, name, types.MergePatchType, []byte(b.upgrade), metav1.PatchOptions{})
	b.check(err)
	return live.GetUID()
}

// remove deletes the custom resource of a name. The answer has no UID.
func (b *bench) remove(ctx context.Context, name string) types.UID {
	b.check(b.customs().Delete(ctx, name, metav1.DeleteOptions{}))
	return ""
}
