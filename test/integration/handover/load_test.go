// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	webappclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/webapp/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// load installs, changes, damages and deletes DemoApps, and the same for Websites without
// deletions, without a pause. So an operator always has work in flight.
type load struct {
	t        *testing.T
	ns       *apps.Namespace
	websites webappclient.WebsiteInterface
	stop     context.CancelFunc
	ended    chan struct{}

	// The fields below belong to the load until it has ended.

	// messages has the newest message of each DemoApp, and pages the newest page of each Website.
	messages, pages map[string]string
	// deleted has the names of the deleted DemoApps.
	deleted []string
	// done counts the steps of each kind.
	done map[string]int
	err  error
}

// startLoad takes one step of load in each interval until Stop.
func startLoad(t *testing.T, ns *apps.Namespace, interval time.Duration) *load {
	t.Helper()
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	l := &load{
		t: t, ns: ns, websites: client.WebappV1().Websites(ns.Name), stop: stop, ended: make(chan struct{}),
		messages: map[string]string{}, pages: map[string]string{}, done: map[string]int{},
	}
	go func() {
		defer close(l.ended)
		l.run(stopped, interval)
	}()
	t.Cleanup(func() {
		stop()
		<-l.ended
	})
	return l
}

// installWebsites installs the kind Website, whose controller is plain Go.
func installWebsites(t *testing.T) {
	t.Helper()
	if err := shared.InstallCRDs(t.Context(), "artifacts/kinds/website/crd.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), "", "artifacts/kinds/website/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
}

func (l *load) run(stopped context.Context, interval time.Duration) {
	// A step runs to its end, because a canceled request may have changed the object.
	ctx := context.WithoutCancel(stopped)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	steps := []struct {
		name string
		do   func(ctx context.Context, step int) error
	}{
		{"installs", l.install},
		{"upgrades", l.upgrade},
		{"deletions", l.remove},
		{"drifts of DemoApps", l.damage},
		{"Websites", l.installWebsite},
		{"changes of Websites", l.changeWebsite},
		{"drifts of Websites", l.damageWebsite},
	}
	for step := 0; stopped.Err() == nil; step++ {
		next := steps[step%len(steps)]
		if err := next.do(ctx, step); err != nil {
			l.err = fmt.Errorf("%s: %w", next.name, err)
			return
		}
		l.done[next.name]++
		select {
		case <-stopped.Done():
		case <-ticker.C:
		}
	}
}

func (l *load) install(ctx context.Context, step int) error {
	app := apps.Named(fmt.Sprintf("web-%03d", step))
	app.Spec.Message = fmt.Sprintf("Message %d", step)
	if _, err := l.ns.Demo.Create(ctx, app, metav1.CreateOptions{}); err != nil {
		return err
	}
	l.messages[app.Name] = app.Spec.Message
	return nil
}

func (l *load) upgrade(ctx context.Context, step int) error {
	name, message := pick(l.messages, step), fmt.Sprintf("Message %d", step)
	change := fmt.Appendf(nil, `{"spec": {"message": %q}}`, message)
	if _, err := l.ns.Demo.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		return err
	}
	l.messages[name] = message
	return nil
}

// remove deletes every second DemoApp.
func (l *load) remove(ctx context.Context, step int) error {
	if len(l.messages) <= len(l.deleted)+1 {
		return nil
	}
	name := pick(l.messages, step)
	// Without the precondition, a finalizer that is added meanwhile has no effect, see
	// https://github.com/kubernetes/kubernetes/issues/77988. Then only the process that added it
	// writes an audit record, and that process may have been killed.
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		app, err := l.ns.Demo.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return l.ns.Demo.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &app.ResourceVersion}})
	})
	if err != nil {
		return err
	}
	delete(l.messages, name)
	l.deleted = append(l.deleted, name)
	return nil
}

func (l *load) damage(ctx context.Context, step int) error {
	return l.damageConfigMap(ctx, pick(l.messages, step))
}

func (l *load) installWebsite(ctx context.Context, step int) error {
	site := &webappv1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("site-%03d", step)},
		Spec:       webappv1.WebsiteSpec{HTML: fmt.Sprintf("Page %d", step)},
	}
	if _, err := l.websites.Create(ctx, site, metav1.CreateOptions{}); err != nil {
		return err
	}
	l.pages[site.Name] = site.Spec.HTML
	return nil
}

func (l *load) changeWebsite(ctx context.Context, step int) error {
	name, page := pick(l.pages, step), fmt.Sprintf("Page %d", step)
	change := fmt.Appendf(nil, `{"spec": {"html": %q}}`, page)
	if _, err := l.websites.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		return err
	}
	l.pages[name] = page
	return nil
}

func (l *load) damageWebsite(ctx context.Context, step int) error {
	return l.damageConfigMap(ctx, pick(l.pages, step))
}

// damageConfigMap changes the page in a ConfigMap, as another client would. A ConfigMap that is not
// installed yet stays as it is.
func (l *load) damageConfigMap(ctx context.Context, name string) error {
	_, err := shared.Client.CoreV1().ConfigMaps(l.ns.Name).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"data": {"index.html": "Changed by another client"}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pick returns one of the names, another one for each step.
func pick(of map[string]string, step int) string {
	names := slices.Sorted(maps.Keys(of))
	return names[step*7%len(names)]
}

// Stop ends the load, and waits until the operator has caught up: all objects are ready with their
// newest spec, all drift is corrected, and deleted DemoApps are gone. No revision of a release may
// repeat the one before it.
func (l *load) Stop() {
	l.t.Helper()
	l.stop()
	<-l.ended
	if l.err != nil {
		l.t.Fatal(l.err)
	}
	begin := time.Now()
	for name, message := range l.messages {
		l.ns.Await(name, "ready with its newest spec", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && app.Spec.Message == message && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted)
		})
	}
	for _, name := range l.deleted {
		l.ns.AwaitGone(name)
		// A DemoApp that no operator has seen has no finalizer, and so no audit record.
		seen := slices.ContainsFunc(l.ns.Versions(name), func(version apps.Version) bool { return len(version.App.Finalizers) > 0 })
		if records := l.ns.AuditRecords(name); (len(records) == 1) != seen || len(records) > 1 {
			l.t.Errorf("%s: %d audit records; seen by an operator: %t", name, len(records), seen)
		}
		if objects, records := l.ns.Objects(name).All(), l.ns.Records(name); len(objects)+len(records) > 0 {
			l.t.Errorf("%s: left are %v and %v", name, objects, records)
		}
	}
	for name, page := range l.pages {
		cluster.Eventually(l.t.Context(), l.t, "newest spec of Website "+name, func(ctx context.Context) (bool, error) {
			site, err := l.websites.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return site.Spec.HTML == page && site.Status.ObservedGeneration == site.Generation &&
				meta.IsStatusConditionTrue(site.Status.Conditions, apimeta.ConditionReady), nil
		})
	}
	for name, content := range l.contents() {
		cluster.Eventually(l.t.Context(), l.t, "drift of "+name+" corrected", func(ctx context.Context) (bool, error) {
			live, err := shared.Client.CoreV1().ConfigMaps(l.ns.Name).Get(ctx, name, metav1.GetOptions{})
			return err == nil && strings.Contains(live.Data["index.html"], content), err
		})
	}
	l.t.Logf("%v; all is as desired %s after the end of the load", l.done, time.Since(begin).Round(time.Millisecond))
	l.assertRevisions()
}

// contents returns the text that the page of each object has to contain.
func (l *load) contents() map[string]string {
	contents := maps.Clone(l.messages)
	maps.Copy(contents, l.pages)
	return contents
}

// assertRevisions asserts that each revision has other values than the one before, and that none is
// unfinished.
func (l *load) assertRevisions() {
	l.t.Helper()
	var before apps.Record
	var config any
	for _, record := range l.ns.Records("") {
		if !slices.Contains([]string{"deployed", "superseded"}, record.Status) {
			l.t.Errorf("%s is left over", record)
		}
		current := apps.DecodeRecord(l.t, &record.Secret)["config"]
		if record.Release == before.Release && reflect.DeepEqual(current, config) {
			l.t.Errorf("%s repeats the values of the revision before", record)
		}
		before, config = record, current
	}
}
