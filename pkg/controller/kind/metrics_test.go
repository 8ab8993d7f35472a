// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

// fleet runs a loop with its informer in a synctest bubble.
type fleet struct {
	t        *testing.T
	client   *demofake.Clientset
	registry *prometheus.Registry
	stop     context.CancelFunc
	ended    chan struct{}
}

// startFleet runs the loop over objects. The status of an object follows its label "is".
func startFleet(t *testing.T, objects ...*cluster) *fleet {
	t.Helper()
	f := &fleet{t: t, client: demofake.NewClientset(), registry: prometheus.NewPedanticRegistry(), ended: make(chan struct{})}
	controllertest.Stamp(f.client)
	for _, object := range objects {
		f.create(object)
	}
	f.start()
	return f
}

func (f *fleet) create(object *cluster) {
	f.t.Helper()
	_, err := f.client.DemoV1alpha1().DemoAppClusters("ns").Create(f.t.Context(), object, metav1.CreateOptions{})
	expect.NoError(f.t, err)
}

// start starts a process. The metrics belong to this process.
func (f *fleet) start() {
	f.t.Helper()
	informer := externalversions.NewSharedInformerFactory(f.client, 0).Demo().V1alpha1().DemoAppClusters().Informer()
	f.registry, f.ended = prometheus.NewPedanticRegistry(), make(chan struct{})
	loop, err := kind.New(kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]{
		Name: "clusters", GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster"), FieldManager: "test",
		Client: func(namespace string) controller.Patcher[*cluster] {
			return f.client.DemoV1alpha1().DemoAppClusters(namespace)
		},
		Status:      func(c *cluster) *v1alpha1.DemoAppClusterStatus { return &c.Status },
		Conditions:  func(s *v1alpha1.DemoAppClusterStatus) *[]metav1.Condition { return &s.Conditions },
		Annotations: []string{"is"},
		Steps: func(_ context.Context, p *pass) error {
			switch is := p.Object.Annotations["is"]; is {
			case "Ready":
				p.Conditions().MarkReady("AllReady", "")
			case "Failed":
				p.Conditions().MarkStalled("Failed", "")
			case "Broken":
				return errors.New("the server is away")
			case "Unprotected":
				p.Conditions().Set("Protected", metav1.ConditionFalse, "NoGuard", "nothing guards it")
				p.Conditions().MarkReady("AllReady", "")
			case "":
			default:
				p.Conditions().MarkReconciling(is, "")
			}
			return nil
		},
		Gates: []kind.Gate{
			{Name: "window", Condition: "Reconciling", Status: metav1.ConditionTrue, Reasons: []string{"OutsideWindow"}},
			{Name: "window", Condition: "Ready", Status: metav1.ConditionFalse, Reasons: []string{"OutsideWindow", "InvalidSchedule"}},
			{Name: "license", Condition: "Licensed", Status: metav1.ConditionFalse},
		},
		Warnings: []kind.Warning{{Name: "Unguarded", Condition: "Protected", Reasons: []string{"NoGuard"}}},
	}, kind.Deps{
		Informers: map[string]cache.SharedIndexInformer{"": informer}, Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{},
		ResyncPeriod: time.Hour, Metrics: controller.NewMetrics(f.registry),
	})
	expect.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	informed := make(chan struct{})
	go func() {
		informer.RunWithContext(ctx)
		close(informed)
	}()
	go func() {
		if err := loop.Run(ctx, context.Background()); err != nil {
			f.t.Error(err)
		}
		<-informed
		close(f.ended)
	}()
	f.pass(time.Second)
}

// end ends the process.
func (f *fleet) end() {
	f.stop()
	<-f.ended
}

// pass lets time pass.
func (f *fleet) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// becomes changes the state of an object, and waits for its status.
func (f *fleet) becomes(name, is string) {
	f.t.Helper()
	clusters := f.client.DemoV1alpha1().DemoAppClusters("ns")
	object, err := clusters.Get(f.t.Context(), name, metav1.GetOptions{})
	expect.NoError(f.t, err)
	object.Annotations = map[string]string{"is": is}
	_, err = clusters.Update(f.t.Context(), object, metav1.UpdateOptions{})
	expect.NoError(f.t, err)
	f.pass(time.Second)
}

// exposes compares the lines of /metrics that begin with a prefix.
func (f *fleet) exposes(prefix string, want ...string) {
	f.t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "/metrics", nil))
	var got []string
	for line := range strings.SplitSeq(answer.Body.String(), "\n") {
		if strings.HasPrefix(line, prefix) {
			got = append(got, line)
		}
	}
	expect.Equal(f.t, "/metrics", want, got)
}

// object returns a cluster that is in a state.
func object(name, is string) *cluster {
	return &cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"is": is}}}
}

func TestObjectCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, object("ready", "Ready"), object("failed", "Failed"), object("held", "OutsideWindow"), object("silent", ""))
		defer f.end()
		leaving := object("leaving", "Ready")
		leaving.Finalizers = []string{theirs}
		f.create(leaving)
		deleted := time.Now()
		expect.NoError(t, f.client.DemoV1alpha1().DemoAppClusters("ns").Delete(t.Context(), "leaving", metav1.DeleteOptions{}))
		f.pass(time.Minute)

		f.exposes("controller_resources",
			`controller_resources{controller="clusters",state="deleting"} 1`,
			`controller_resources{controller="clusters",state="ready"} 1`,
			`controller_resources{controller="clusters",state="reconciling"} 2`,
			`controller_resources{controller="clusters",state="stalled"} 1`)
		f.exposes("controller_namespace_",
			`controller_namespace_resources{controller="clusters",resource_namespace="ns",state="deleting"} 1`,
			`controller_namespace_resources{controller="clusters",resource_namespace="ns",state="reconciling"} 2`,
			`controller_namespace_resources{controller="clusters",resource_namespace="ns",state="stalled"} 1`)
		f.exposes("controller_held",
			`controller_held_resources{controller="clusters",gate="license"} 0`,
			`controller_held_resources{controller="clusters",gate="suspend"} 0`,
			`controller_held_resources{controller="clusters",gate="window"} 1`)
		f.exposes("controller_oldest", fmt.Sprintf(`controller_oldest_deletion_timestamp_seconds{controller="clusters",resource_namespace="ns"} %v`, float64(deleted.Unix())))

		f.becomes("held", "Ready")
		f.exposes("controller_held",
			`controller_held_resources{controller="clusters",gate="license"} 0`,
			`controller_held_resources{controller="clusters",gate="suspend"} 0`,
			`controller_held_resources{controller="clusters",gate="window"} 0`)
	})
}

// TestWarnings: a ready object that warns is counted for its namespace.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, object("ready", "Ready"), object("warns", "Unprotected"))
		defer f.end()

		f.exposes("controller_namespace_", `controller_namespace_warnings{controller="clusters",resource_namespace="ns",warning="Unguarded"} 1`)
	})
}

// TestFailingObjects: an object counts as failing from a failed pass to the next successful pass,
// whatever its state is.
func TestFailingObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, object("well", "Ready"), object("stalled", "Failed"), object("breaks", "Ready"))
		defer f.end()
		f.exposes("controller_failing", `controller_failing_namespaces{controller="clusters"} 0`)

		f.becomes("breaks", "Broken")
		for range 10 {
			f.pass(time.Minute)
			f.exposes("controller_failing", `controller_failing_namespaces{controller="clusters"} 1`)
			f.exposes("controller_namespace_failing", `controller_namespace_failing_resources{controller="clusters",resource_namespace="ns"} 1`)
			f.exposes("controller_namespaces", `controller_namespaces{controller="clusters"} 1`)
		}

		f.becomes("breaks", "Ready")
		f.exposes("controller_failing", `controller_failing_namespaces{controller="clusters"} 0`)
		f.exposes("controller_namespace_failing")
	})
}

// TestObjectCountsOfNewGeneration holds that the conditions of an older generation do not count.
func TestObjectCountsOfNewGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := object("changed", "")
		f := startFleet(t, changed)
		defer f.end()
		f.becomes("changed", "Ready")
		f.exposes(`controller_resources{controller="clusters",state="ready"}`, `controller_resources{controller="clusters",state="ready"} 1`)
		f.becomes("changed", "") // The next pass writes no status.
		clusters := f.client.DemoV1alpha1().DemoAppClusters("ns")
		object, err := clusters.Get(t.Context(), "changed", metav1.GetOptions{})
		expect.NoError(t, err)
		object.Spec.Template.Spec.Image = "nginx:2"

		_, err = clusters.Update(t.Context(), object, metav1.UpdateOptions{})
		expect.NoError(t, err)
		f.pass(time.Second)

		f.exposes(`controller_resources{controller="clusters",state="r`,
			`controller_resources{controller="clusters",state="ready"} 0`,
			`controller_resources{controller="clusters",state="reconciling"} 1`)
	})
}

// TestObjectCountsEndWithTheLoop holds that only a running loop counts.
func TestObjectCountsEndWithTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, object("ready", "Ready"))

		f.end()

		f.exposes("controller_resources")
	})
}

func TestTimeToReady(t *testing.T) {
	const count, sum = `controller_time_to_ready_seconds_count{controller="clusters"} `, `controller_time_to_ready_seconds_sum{controller="clusters"} `
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t)
		defer func() { f.end() }()
		f.exposes("controller_time_to_ready_seconds_count", count+"0")

		f.create(object("web", "Progressing"))
		f.pass(30 * time.Second)
		f.exposes("controller_time_to_ready_seconds_count", count+"0")
		f.becomes("web", "Ready")
		f.exposes("controller_time_to_ready_seconds_count", count+"1")
		f.exposes("controller_time_to_ready_seconds_sum", sum+"30")

		f.becomes("web", "Failed")
		f.becomes("web", "Ready")
		f.exposes("controller_time_to_ready_seconds_count", count+"1")

		f.create(object("quick", "Ready"))
		f.pass(time.Second)
		f.exposes("controller_time_to_ready_seconds_count", count+"2")

		expect.NoError(t, f.client.DemoV1alpha1().DemoAppClusters("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		f.pass(time.Second)
		f.create(object("web", "Progressing"))
		f.pass(time.Second)
		f.becomes("web", "Ready")
		f.exposes("controller_time_to_ready_seconds_count", count+"3")
	})
}

// TestTimeToReadyAfterRestart: a new process does not measure an object that may have been Ready
// before.
func TestTimeToReadyAfterRestart(t *testing.T) {
	const count = `controller_time_to_ready_seconds_count{controller="clusters"} `
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, object("was", "Ready"), object("begun", "Progressing"))
		defer func() { f.end() }()
		f.becomes("was", "Failed")
		f.end()
		f.create(object("fresh", "Progressing"))

		f.start()
		for _, name := range []string{"was", "begun"} {
			f.becomes(name, "Ready")
		}
		f.exposes("controller_time_to_ready_seconds_count", count+"0")
		f.becomes("fresh", "Ready")

		f.exposes("controller_time_to_ready_seconds_count", count+"1")
	})
}
