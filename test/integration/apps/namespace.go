// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/cluster"
)

// Namespace is a test's namespace with its DemoApps.
type Namespace struct {
	// Name is the namespace's name.
	Name string
	// Cluster is the control plane that the namespace is on.
	Cluster *cluster.Cluster
	// Demo acts on the DemoApps as an administrator.
	Demo democlient.DemoAppInterface

	t       testing.TB
	history *history
}

// Named returns a DemoApp with a key, and with defaults for all other fields.
func Named(name string) *v1alpha1.DemoApp {
	return &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.DemoAppSpec{APIKey: "key-of-" + name},
	}
}

// WithoutPods returns a DemoApp whose Deployment has no pods. Pods would cause status updates at
// times that a test cannot predict.
func WithoutPods(name string) *v1alpha1.DemoApp {
	app := Named(name)
	app.Spec.ReplicaCount = ptr.To[int32](0)
	return app
}

// Waiting returns a DemoApp that waits for another DemoApp.
func Waiting(name, waitFor string) *v1alpha1.DemoApp {
	app := Named(name)
	app.Spec.WaitFor = waitFor
	return app
}

// New creates a namespace, which is deleted at the end of the test.
func New(t testing.TB, c *cluster.Cluster) *Namespace {
	t.Helper()
	return In(t, c, c.Namespace(t))
}

// In watches the DemoApps of an existing namespace until the end of the test. It then asserts that
// no version broke a rule that always holds. The CRD must be installed.
func In(t testing.TB, c *cluster.Cluster, name string) *Namespace {
	t.Helper()
	client, err := versioned.NewForConfig(c.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	n := &Namespace{
		Name: name, Cluster: c, Demo: client.DemoV1alpha1().DemoApps(name), t: t, history: newHistory(),
	}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(name))
	registration, err := factory.Demo().V1alpha1().DemoApps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.history.add(object.(*v1alpha1.DemoApp), false) },
		UpdateFunc: func(_, object any) { n.history.add(object.(*v1alpha1.DemoApp), false) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			n.history.add(object.(*v1alpha1.DemoApp), true)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The watch outlives the test's context, because cleanups wait for DemoApps.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
		n.checkInvariants()
	})
	if !cache.WaitForCacheSync(t.Context().Done(), registration.HasSynced) {
		t.Fatalf("the DemoApps of namespace %s could not be watched", name)
	}
	return n
}

// Create creates a DemoApp in the namespace.
func (n *Namespace) Create(app *v1alpha1.DemoApp) *v1alpha1.DemoApp {
	n.t.Helper()
	created, err := n.Demo.Create(n.t.Context(), app, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatalf("create DemoApp %s: %v", app.Name, err)
	}
	n.history.wrote(created)
	return created
}

// Change changes the spec of a DemoApp.
func (n *Namespace) Change(name string, change func(*v1alpha1.DemoAppSpec)) *v1alpha1.DemoApp {
	n.t.Helper()
	var updated *v1alpha1.DemoApp
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		app, err := n.Demo.Get(n.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&app.Spec)
		updated, err = n.Demo.Update(n.t.Context(), app, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		n.t.Fatalf("change DemoApp %s: %v", name, err)
	}
	n.history.wrote(updated)
	return updated
}

// Delete deletes a DemoApp without waiting for its removal.
func (n *Namespace) Delete(name string) {
	n.t.Helper()
	if err := n.Demo.Delete(n.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		n.t.Fatalf("delete DemoApp %s: %v", name, err)
	}
}

// Await waits until done holds for a DemoApp, and returns the DemoApp. The test fails on a timeout.
func (n *Namespace) Await(name, what string, done func(*v1alpha1.DemoApp) bool) *v1alpha1.DemoApp {
	n.t.Helper()
	return n.await(name, what, func(version Version) bool { return !version.Deleted && done(version.App) }).App
}

// AwaitReady waits until a DemoApp is ready at its newest generation.
func (n *Namespace) AwaitReady(name string) *v1alpha1.DemoApp {
	n.t.Helper()
	return n.Await(name, "ready", IsReady)
}

// AwaitGone waits until a DemoApp is gone.
func (n *Namespace) AwaitGone(name string) Version {
	n.t.Helper()
	return n.await(name, "gone", func(version Version) bool { return version.Deleted })
}

// Versions returns all observed versions of a DemoApp, the oldest first.
func (n *Namespace) Versions(name string) []Version { return n.history.all(name) }

// ChangesSince describes for a person how the status of a DemoApp has changed since a version.
func (n *Namespace) ChangesSince(name string, since time.Time) string {
	var changes strings.Builder
	var before *v1alpha1.DemoApp
	for _, version := range n.history.all(name) {
		if before != nil && !version.Seen.Before(since) {
			fmt.Fprintf(&changes, "%s (-before +after):\n%s", version.Seen.Format(time.StampMilli),
				cmp.Diff(before.Status, version.App.Status))
		}
		before = version.App
	}
	return changes.String()
}

func (n *Namespace) await(name, what string, done func(Version) bool) Version {
	n.t.Helper()
	timeout := time.NewTimer(cluster.DefaultTimeout)
	defer timeout.Stop()
	for {
		version, ok, changed := n.history.latest(name)
		if ok && done(version) {
			return version
		}
		select {
		case <-changed:
		case <-timeout.C:
			n.t.Fatalf("DemoApp %s/%s: not in %s: %s; it is:\n%s", n.Name, name, cluster.DefaultTimeout, what, n.describe(name))
		}
	}
}

// describe formats the newest version for a person.
func (n *Namespace) describe(name string) string {
	versions := n.history.all(name)
	if len(versions) == 0 {
		return "never seen"
	}
	last := versions[len(versions)-1]
	app := last.App.DeepCopy()
	app.ManagedFields = nil
	text, err := yaml.Marshal(app)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("(version %d, seen %s ago, gone: %t)\n%s", len(versions), time.Since(last.Seen).Round(time.Millisecond),
		last.Deleted, text)
}
