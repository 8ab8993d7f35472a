// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
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
	// restarted is the number of restarts.
	restarted = 4
	// calm is how long the objects may take to become Ready after the last fault.
	calm = time.Minute
	// soakNamespaces is the number of namespaces with objects.
	soakNamespaces = 20
	// keptRevisions is the number of revisions that each release keeps.
	keptRevisions = 2
)

// soakFaults are the faults of a soak. Late answers would only make it slow.
var soakFaults = []string{"500", "429", "409", "reset before", "reset after"}

// A soakKind is a kind of the soak. NAME stands for an object's name, and NUMBER for the number of
// its last change.
type soakKind struct {
	object string
	child  drift
	// text is a part of the child's JSON that follows from the spec.
	text string
}

// soakRelease is the kind with releases. Most releases have no pods.
var soakRelease = soakKind{`
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: NAME}
spec: {apiKey: key-of-an-app, replicaCount: 0, maxHistory: 2, message: "message NUMBER."}
`, drift{"v1", "ConfigMap", "NAME", `{"data": {"index.html": "theirs"}}`}, "message NUMBER."}

// soakKinds are the Go kinds.
var soakKinds = []soakKind{
	{`
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: NAME}
spec: {html: page NUMBER}
`, drift{"v1", "ConfigMap", "NAME", ""}, `"index.html":"page NUMBER"`},
	{`
apiVersion: config.example.com/v1
kind: AppConfig
metadata: {name: NAME}
spec: {application: NAME, environment: prod, values: {level: "NUMBER"}, config: {LEVEL: "{{ .Values.level }}"}}
`, drift{"v1", "ConfigMap", "NAME-config", `{"data": {"LEVEL": "theirs"}}`}, `"LEVEL":"NUMBER"`},
	{`
apiVersion: cache.my.domain/v1
kind: MemcachedBackup
metadata: {name: NAME}
spec: {size: FEW}
`, drift{"apps/v1", "Deployment", "NAME", ""}, `"replicas":FEW,`},
}

// A soaked object is changed repeatedly by one user.
type soaked struct {
	kind            soakKind
	namespace, name string
	client          dynamic.ResourceInterface
	// number is the number of the last change, and 0 after the creation.
	number int
	// deletions is the number of deletions so far.
	deletions int
}

func (o *soaked) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace, Name: name}
}

// TestSoak changes many objects and their children while one request of a hundred fails. In the
// first third of the time, the operator restarts repeatedly. Then one process goes on, and its
// footprint must not grow in the last third. After each third, all objects must become Ready and
// their children as desired.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it runs with -soak=30m")
	}
	stopShared(t)
	own := launch
	own.Args = slices.Concat(launch.Args, []string{"--pprof-bind-address=127.0.0.1:0"})
	// It keeps copies of all versions of objects for minutes.
	own.Env = []string{"KUBE_CACHE_MUTATION_DETECTOR=false"}
	running := newRestarts(t, own, own)
	defer running.end()
	objects := createSoaked(t)
	awaitSettled(t, objects, cluster.DefaultTimeout+time.Duration(len(objects))*time.Second)
	random := rand.New(rand.NewPCG(uint64(*seed), 0))
	churn(t, random, objects, func() { running.restart(t) })
	measure(t, running, objects)
	// A process ends when it fails to check its permissions at the start.
	selfEnded := running.selfEnded.Load()
	churn(t, random, objects, func() {})
	before := measure(t, running, objects)

	churn(t, random, objects, func() {})

	after := measure(t, running, objects)
	after.assertNotGrown(t, before)
	running.assertSelfEnded(t, selfEnded)
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
		object := decode(t, o.named(kind.object))[0]
		o.client = clientOf(t, object, o.namespace)
		if _, err := o.client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// named returns a text about the object. FEW takes the place of a number of pods, which each change
// changes.
func (o *soaked) named(text string) string {
	return strings.NewReplacer("NAME", o.name, "NUMBER", strconv.Itoa(o.number), "FEW", strconv.Itoa(o.number%3)).Replace(text)
}

// churn changes the objects for a third of the soak, while requests fail and the operator restarts.
// Then it waits until all objects are settled.
func churn(t *testing.T, random *rand.Rand, objects []*soaked, restart func()) {
	t.Helper()
	third := *soak / 3
	ctx, cancel := context.WithTimeout(t.Context(), third)
	defer cancel()
	sabotage.failSome(rand.New(rand.NewPCG(random.Uint64(), 0)))
	var work sync.WaitGroup
	var changes atomic.Int64
	for user := range users {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
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
				if err := o.disturb(t, random); err != nil { //nolint:contextcheck // The last change is completed after the soak.
					t.Errorf("%s/%s: %v", o.namespace, o.name, err)
				}
				changes.Add(1)
			}
		})
	}
	every := time.NewTicker(third / (restarted + 1))
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-every.C:
			restart()
		}
	}
	work.Wait()
	sabotage.failSome(nil)
	count(t, int(changes.Load()))
	awaitSettled(t, objects, calm)
}

// disturb changes the object or its child, or deletes the object and makes it again.
func (o *soaked) disturb(t *testing.T, random *rand.Rand) error {
	t.Helper()
	ctx := t.Context()
	switch random.IntN(10) {
	case 0:
		// A DemoApp without its finalizer has no release, and its deletion leaves no audit record.
		live, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
		if err != nil || o.kind.object == soakRelease.object && len(live.GetFinalizers()) == 0 {
			return err
		}
		if err := o.client.Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		o.deletions++
		awaitGone(ctx, t, o.client, o.name)
		o.number = 0
		_, err = o.client.Create(ctx, decode(t, o.named(o.kind.object))[0], metav1.CreateOptions{})
		return err
	case 1, 2:
		d := o.kind.child
		d.name = o.named(d.name)
		return d.attempt(ctx, t, o.namespace) // The operator may not have created the child yet.
	default:
		o.number++
		patch, err := decode(t, o.named(o.kind.object))[0].MarshalJSON()
		if err != nil {
			return err
		}
		_, err = o.client.Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

// restart ends the operator, in an orderly way or not, and waits until the next one leads.
func (r *restarts) restart(t *testing.T) {
	t.Helper()
	old := r.ends()
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

// awaitSettled waits until all objects are Ready and their children as desired.
func awaitSettled(t *testing.T, objects []*soaked, timeout time.Duration) {
	t.Helper()
	const most = 10
	begin, every := time.Now(), time.NewTicker(time.Second)
	defer every.Stop()
	for {
		unsettled := unsettledOf(t, objects)
		if len(unsettled) == 0 {
			t.Logf("all objects are settled after %s", time.Since(begin))
			return
		}
		if time.Since(begin) > timeout {
			t.Fatalf("%d objects are not settled after %s:\n%s", len(unsettled), timeout, strings.Join(unsettled[:min(len(unsettled), most)], "\n"))
		}
		<-every.C
	}
}

// unsettledOf describes objects of one kind that are not Ready, or whose child is not as desired.
func unsettledOf(t *testing.T, objects []*soaked) []string {
	t.Helper()
	list := func(of *unstructured.Unstructured) map[types.NamespacedName]*unstructured.Unstructured {
		list, err := clientOf(t, of, "").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[types.NamespacedName]*unstructured.Unstructured{}
		for i := range list.Items {
			item := &list.Items[i]
			found[types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()}] = item
		}
		return found
	}
	for _, kind := range append(soakKinds, soakRelease) {
		live, children := list(decode(t, kind.object)[0]), list(kind.child.child())
		var unsettled []string
		for _, o := range objects {
			if o.kind.object != kind.object {
				continue
			}
			object, child := live[o.key(o.name)], children[o.key(o.named(kind.child.name))]
			if object == nil || child == nil {
				unsettled = append(unsettled, fmt.Sprintf("%s/%s: the object or its child is missing", o.namespace, o.name))
				continue
			}
			delete(child.Object, "status")
			text, err := child.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			isReady, err := isReady(object)
			if !isReady || err != nil || !strings.Contains(string(text), o.named(kind.text)) || strings.Contains(string(text), "theirs") {
				unsettled = append(unsettled, fmt.Sprintf("%s/%s: Ready %t (%v), number %d, child %s", o.namespace, o.name, isReady, err, o.number, text))
			}
		}
		if len(unsettled) > 0 {
			return unsettled
		}
	}
	return nil
}

// A footprint has the resources that the operator uses, and the number of release records by status
// and of audit records. Heap is the size of the live objects on the heap, in bytes. For up to 12
// minutes, client-go keeps each event, to count repetitions.
type footprint struct {
	Goroutines, Files, Heap, Watches, Audits int64
	Records                                  map[string]int64
}

// measure waits for the end of the operator's work and returns its footprint, of which it checks
// the records.
func measure(t *testing.T, running *restarts, objects []*soaked) footprint {
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
	collectGarbage(t, running.running())
	f := footprint{
		Heap: metric("go_memstats_heap_alloc_bytes"), Goroutines: metric("go_goroutines"), Files: metric("process_open_fds"),
		Watches: sabotage.open.Load(), Records: map[string]int64{},
	}
	namespaces := sets.New[string]()
	for _, o := range objects {
		namespaces.Insert(o.namespace)
	}
	records, err := shared.Client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records.Items {
		if record := &records.Items[i]; namespaces.Has(record.Namespace) {
			f.Records[record.Labels["status"]]++
		}
	}
	audits, err := shared.Client.CoreV1().ConfigMaps(apps.AuditNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range audits.Items {
		if namespaces.Has(audits.Items[i].Labels["demo.example.com/source-namespace"]) {
			f.Audits++
		}
	}
	t.Logf("%+v", f)
	f.assertRecords(t, objects)
	return f
}

// pprofAddress matches the address of pprof in the operator's log.
var pprofAddress = regexp.MustCompile(`"pprof":"([^"]+)"`)

// collectGarbage makes the operator collect its garbage, so that the heap has little but live
// objects.
func collectGarbage(t *testing.T, operator *cluster.Operator) {
	t.Helper()
	match := pprofAddress.FindStringSubmatch(operator.Log())
	if match == nil {
		t.Fatal("the log of the operator has no address of pprof")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+match[1]+"/debug/pprof/heap?gc=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // A sync.Pool keeps its objects during one collection.
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("collect garbage: status %s (%v)", response.Status, err)
		}
	}
}

// assertRecords checks that each release has one deployed revision and at most one older one, none
// of them is pending, and each deletion of a DemoApp has left one audit record.
func (f footprint) assertRecords(t *testing.T, objects []*soaked) {
	t.Helper()
	var releases, deletions int64
	for _, o := range objects {
		if o.kind.object == soakRelease.object {
			releases++
			deletions += int64(o.deletions)
		}
	}
	for status, records := range f.Records {
		if status != "deployed" && status != "superseded" {
			t.Errorf("%d release records are %s", records, status)
		}
	}
	if f.Records["deployed"] != releases || f.Records["superseded"] > releases*(keptRevisions-1) {
		t.Errorf("release records %v of %d releases", f.Records, releases)
	}
	if f.Audits != deletions {
		t.Errorf("%d audit records after %d deletions", f.Audits, deletions)
	}
}

// assertNotGrown compares two footprints with the same objects.
func (f footprint) assertNotGrown(t *testing.T, before footprint) {
	t.Helper()
	for _, limit := range []struct {
		what        string
		most, value int64
	}{
		// Connections, timers and watches come and go.
		{"goroutines", before.Goroutines + before.Goroutines/10 + 50, f.Goroutines},
		{"open files", before.Files + 20, f.Files},
		{"bytes of heap", before.Heap * 5 / 4, f.Heap},
		{"watches", before.Watches + 2, f.Watches},
	} {
		if limit.value > limit.most {
			t.Errorf("%d %s, want at most %d", limit.value, limit.what, limit.most)
		}
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
