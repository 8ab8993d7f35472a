// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
)

var (
	soak         = flag.Duration("soak", 0, "how long TestSoak changes objects; 0 skips it")
	soakReleases = flag.Int("releases", 1000, "number of releases of TestSoak")
	soakPlain    = flag.Int("plain", 300, "number of objects of Go kinds of TestSoak")
)

const (
	// users change objects side by side, each of them after this pause.
	users     = 4
	userPause = 500 * time.Millisecond
	// oneFailsOf is the number of requests of which one fails.
	oneFailsOf = 100
	// restartAfter is the longest time between two restarts.
	restartAfter = 5 * time.Minute
	// calm is how long the objects may take to become Ready after the soak.
	calm = time.Minute
	// soakNamespaces is the number of namespaces with objects.
	soakNamespaces = 20
	// keptRevisions is the number of revisions that each release keeps.
	keptRevisions = 2
)

// soakFaults are the faults of a soak. Late answers would only make it slow.
var soakFaults = []string{"500", "429", "409", "reset before", "reset after"}

// A soakKind is a kind of the soak, with objects whose name takes the place of NAME.
type soakKind struct {
	object string
	// change is a merge patch; NUMBER is a random number.
	change string
	child  drift
}

// soakRelease is the kind with releases. Most releases have no pods.
var soakRelease = soakKind{
	object: `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: NAME}
spec: {apiKey: key-of-an-app, replicaCount: 0, maxHistory: 2}
`,
	change: `{"spec": {"message": "message NUMBER"}}`,
	child:  drift{"v1", "ConfigMap", "NAME", `{"data": {"message": "theirs NUMBER"}}`},
}

// soakKinds are the Go kinds.
var soakKinds = []soakKind{
	{`
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: NAME}
spec: {html: hello}
`, `{"spec": {"html": "page NUMBER"}}`, drift{"v1", "ConfigMap", "NAME", ""}},
	{`
apiVersion: config.example.com/v1
kind: AppConfig
metadata: {name: NAME}
spec: {application: NAME, environment: prod, values: {level: info}, config: {LEVEL: "{{ .Values.level }}"}}
`, `{"spec": {"values": {"level": "NUMBER"}}}`, drift{"v1", "ConfigMap", "NAME-config", `{"data": {"LEVEL": "theirs"}}`}},
	{`
apiVersion: cache.my.domain/v1
kind: MemcachedBackup
metadata: {name: NAME}
spec: {size: 0}
`, `{"metadata": {"labels": {"number": "NUMBER"}}}`, drift{"apps/v1", "Deployment", "NAME", ""}},
}

// A soaked object is changed again and again by one user.
type soaked struct {
	kind            soakKind
	namespace, name string
	client          dynamic.ResourceInterface
}

// TestSoak changes many objects and their children while one request of a hundred fails and the
// operator restarts again and again. After that, all objects must become Ready within a minute, and
// what the operator takes must not have grown.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it runs with -soak=30m")
	}
	stopShared(t)
	running := newRestarts(t, cluster.ShortLease...)
	objects := createSoaked(t)
	awaitSoakedReady(t, cluster.DefaultTimeout+time.Duration(len(objects))*time.Second)
	// A new process has all objects and no past.
	running.restart(t)
	before := measure(t, running)
	deleted, changes := churn(t, running, objects)
	count(t, int(changes))

	took := awaitSoakedReady(t, cluster.DefaultTimeout)

	if took > calm {
		t.Errorf("all objects were Ready after %s, want %s", took, calm)
	}
	after := measure(t, running)
	t.Logf("%s, %d changes, %d deletions, ready after %s\nbefore: %+v\nafter:  %+v", *soak, changes, deleted, took, before, after)
	after.assertNotGrown(t, before, deleted)
}

// createSoaked creates the objects.
func createSoaked(t *testing.T) []*soaked {
	t.Helper()
	var objects []*soaked
	namespaces := make([]string, soakNamespaces)
	for i := range namespaces {
		namespaces[i] = shared.Namespace(t)
	}
	for i := range *soakReleases + *soakPlain {
		kind := soakRelease
		if i >= *soakReleases {
			kind = soakKinds[i%len(soakKinds)]
		}
		o := &soaked{kind: kind, namespace: namespaces[i%len(namespaces)], name: fmt.Sprintf("web-%d", i)}
		object := decode(t, o.named(kind.object, 0))[0]
		o.client = clientOf(t, object, o.namespace)
		if _, err := o.client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// named returns a text about the object.
func (o *soaked) named(text string, number int) string {
	return strings.NewReplacer("NAME", o.name, "NUMBER", strconv.Itoa(number)).Replace(text)
}

// churn changes the objects for the time of the soak, while requests fail and the operator
// restarts. It returns the number of DemoApps that were deleted, and the number of changes.
func churn(t *testing.T, running *restarts, objects []*soaked) (deleted, changes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	sabotage.failSome(rand.New(rand.NewPCG(uint64(*seed), 0)))
	defer sabotage.failSome(nil)
	var work sync.WaitGroup
	var deletions, all atomic.Int64
	for user := range users {
		random := rand.New(rand.NewPCG(uint64(*seed), uint64(user)+1))
		work.Go(func() {
			pause := time.NewTicker(userPause)
			defer pause.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-pause.C:
				}
				// Each user has objects of its own.
				o := objects[random.IntN(len(objects)/users)*users+user]
				isDeletion, err := o.disturb(t, random) //nolint:contextcheck // The last change is completed after the soak.
				if err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("%s/%s: %v", o.namespace, o.name, err)
				}
				if isDeletion && o.kind.object == soakRelease.object {
					deletions.Add(1)
				}
				all.Add(1)
			}
		})
	}
	every := time.NewTicker(min(restartAfter, *soak/3))
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-every.C:
			running.restart(t)
		}
	}
	work.Wait()
	return deletions.Load(), all.Load()
}

// disturb changes the object or its child, or deletes the object and makes it again.
func (o *soaked) disturb(t *testing.T, random *rand.Rand) (isDeletion bool, err error) {
	t.Helper()
	ctx := t.Context()
	switch random.IntN(10) {
	case 0:
		if err := o.client.Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
			return false, err
		}
		cluster.Eventually(ctx, t, o.name+" is gone", func(ctx context.Context) (bool, error) {
			_, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), err
		})
		_, err := o.client.Create(ctx, decode(t, o.named(o.kind.object, 0))[0], metav1.CreateOptions{})
		return true, err
	case 1, 2:
		child := &unstructured.Unstructured{}
		child.SetAPIVersion(o.kind.child.apiVersion)
		child.SetKind(o.kind.child.kind)
		client, name := clientOf(t, child, o.namespace), o.named(o.kind.child.name, 0)
		if o.kind.child.patch == "" {
			return false, client.Delete(ctx, name, metav1.DeleteOptions{})
		}
		patch := o.named(o.kind.child.patch, random.Int())
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return false, err
	default:
		patch := o.named(o.kind.change, random.Int())
		_, err := o.client.Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return false, err
	}
}

// restart ends the operator, in an orderly way or not, and waits until the next one leads.
func (r *restarts) restart(t *testing.T) {
	t.Helper()
	old := r.running()
	if r.count++; r.count%2 == 0 {
		old.Kill()
	} else {
		old.Stop()
	}
	cluster.Eventually(t.Context(), t, "another operator leads", func(ctx context.Context) (bool, error) {
		next := r.running()
		if next == old {
			return false, nil
		}
		return next.Leads(ctx)
	})
}

// awaitSoakedReady waits until all objects of the kinds of the soak are Ready, and returns how long
// that took.
func awaitSoakedReady(t *testing.T, timeout time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		waiting := unreadySoaked(ctx, t)
		if waiting == "" {
			return time.Since(begin)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not Ready after %s: %s", timeout, waiting)
		case <-time.After(time.Second):
		}
	}
}

// unreadySoaked returns the names of some objects that are not Ready.
func unreadySoaked(ctx context.Context, t *testing.T) string {
	t.Helper()
	const most = 10
	var unready []string
	for _, kind := range append(soakKinds, soakRelease) {
		list, err := clientOf(t, decode(t, kind.object)[0], "").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			isReady, err := isReady(object)
			if err != nil {
				t.Fatal(err)
			}
			if !isReady && strings.HasPrefix(object.GetNamespace(), "soak-") && len(unready) < most {
				unready = append(unready, object.GetNamespace()+"/"+object.GetName())
			}
		}
	}
	return strings.Join(unready, ", ")
}

// A footprint is what the operator takes. Heap is the size at which the next garbage collection
// begins, in bytes, which follows from the live heap after the last one.
type footprint struct {
	Goroutines, Files, Heap, Watches, Records, Audits int64
}

// measure waits for the end of the operator's work and returns what it takes.
func measure(t *testing.T, running *restarts) footprint {
	t.Helper()
	ctx := t.Context()
	err := shared.AwaitAuditQuiet(ctx, quiet, func(event cluster.AuditEvent) bool {
		return cluster.ByOperator()(event) && event.IsWrite() && event.Resource != "leases"
	})
	if err != nil {
		t.Fatal(err)
	}
	metric := func(series string) int64 {
		value, err := running.running().Metric(ctx, series)
		if err != nil {
			t.Fatal(err)
		}
		return int64(value)
	}
	f := footprint{
		Goroutines: metric("go_goroutines"), Files: metric("process_open_fds"),
		Heap: metric("go_memstats_next_gc_bytes"), Watches: sabotage.open.Load(),
	}
	metadata := func(resource schema.GroupVersionResource, selector string) int64 {
		list, err := shared.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		count := int64(0)
		for i := range list.Items {
			item := &list.Items[i]
			of := item.GetNamespace() + item.GetLabels()["demo.example.com/source-namespace"]
			if strings.Contains(of, "soak-") {
				count++
			}
		}
		return count
	}
	f.Records = metadata(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "owner=helm")
	f.Audits = metadata(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "demo.example.com/source-namespace")
	return f
}

// assertNotGrown compares two footprints with the same objects.
func (f footprint) assertNotGrown(t *testing.T, before footprint, deleted int64) {
	t.Helper()
	for _, limit := range []struct {
		what        string
		most, value int64
	}{
		// Connections and timers come and go.
		{"goroutines", before.Goroutines + before.Goroutines/10 + 50, f.Goroutines},
		{"open files", before.Files + 20, f.Files},
		{"bytes of heap", before.Heap * 3 / 2, f.Heap},
		{"watches", before.Watches, f.Watches},
		{"release records", int64(*soakReleases) * keptRevisions, f.Records},
		{"audit records", before.Audits + deleted, f.Audits},
	} {
		if limit.value > limit.most {
			t.Errorf("%d %s, want at most %d", limit.value, limit.what, limit.most)
		}
	}
	if f.Audits < before.Audits+deleted {
		t.Errorf("%d audit records after %d deletions", f.Audits-before.Audits, deleted)
	}
}

// failSome breaks one of so many requests of all runs from now on; nil ends that.
func (s *saboteur) failSome(random *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.random = random
}

// randomFault returns the fault that a request meets by chance; nil for none.
func (s *saboteur) randomFault(r *http.Request) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isAWatch := isWatch(r); isAWatch || s.random == nil || s.random.IntN(oneFailsOf) > 0 {
		return nil
	}
	return faults[soakFaults[s.random.IntN(len(soakFaults))]]
}
