// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/reload"
	configclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/config/v1"
)

// Name is the controller's name in logs and metrics.
const Name = "appconfig"

// maxReloaded is the number of workloads in status.reloaded.
const maxReloaded = 100

// Reloads are the names that the workloads of AppConfigs are watched and rolled by.
var Reloads = reload.Options{
	Label: configv1.LabelReload, Suffix: configMapSuffix, Annotation: configv1.AnnotationHash, FieldManager: child.FieldManager + "-hash",
}

// byApplication is the index of AppConfigs by namespace and application.
const byApplication = "appconfig.application"

// Kind is the kind of the owners of the children.
var Kind = configv1.SchemeGroupVersion.WithKind("AppConfig")

type (
	pass = kind.Pass[*configv1.AppConfig]
	loop = kind.Loop[*configv1.AppConfig, configv1.AppConfigStatus]
)

type reconciler struct {
	loop      *loop
	children  *child.Set
	workloads *reload.Workloads
}

// New wires the controller of AppConfigs, of their children, and of the workloads that use them. It starts nothing.
func New(client configclient.AppConfigsGetter, children *child.Set, workloads *reload.Workloads, deps kind.Deps) (*loop, error) {
	r := &reconciler{children: children, workloads: workloads}
	var err error
	r.loop, err = kind.New(kind.Kind[*configv1.AppConfig, configv1.AppConfigStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client:     func(namespace string) controller.Patcher[*configv1.AppConfig] { return client.AppConfigs(namespace) },
		Status:     func(a *configv1.AppConfig) *configv1.AppConfigStatus { return &a.Status },
		Conditions: func(s *configv1.AppConfigStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      r.steps,
		Events:     transitions,
	}, deps)
	if err != nil {
		return nil, err
	}
	errs := []error{children.Watch(r.loop), workloads.Watch(r.loop, r.configsOf)}
	for _, informer := range deps.Informers {
		errs = append(errs, r.watchRivals(informer))
	}
	return r.loop, errors.Join(errs...)
}

func (r *reconciler) steps(ctx context.Context, p *pass) error {
	status := &p.Object.Status
	status.ObservedGeneration = p.Object.Generation
	data, err := render(p.Object)
	summarizeRendering(p, err)
	if err != nil {
		return controller.Terminal(err)
	}
	if rival := r.rivalOf(p.Object); rival != nil {
		err := controller.Terminal(&child.OwnershipConflictError{
			Kind: "ConfigMap", Name: configMapOf(p.Object), Holder: fmt.Sprintf("%s %q", Kind.Kind, rival.Name),
		})
		return summarize(p, child.State{}, err, nil)
	}
	state, err := r.children.Ensure(ctx, p.Object, &status.Children, p.Now, desired(p.Object, data))
	var reloadErr error
	if err == nil && state.Of("ConfigMap", configMapOf(p.Object)).UID != "" {
		recordContent(status, hashOf(data), holds(p.Observed), p.Now)
		reloadErr = r.reload(ctx, p.Object)
	}
	return summarize(p, state, err, reloadErr)
}

// reload rolls the workloads whose pods may have started with earlier content.
func (r *reconciler) reload(ctx context.Context, a *configv1.AppConfig) error {
	rolled, err := r.workloads.Roll(ctx, reload.Content{
		Namespace: a.Namespace, Name: a.Spec.Application,
		Hash: a.Status.ConfigHash, Changed: a.Status.LastChangeTime, Rolled: a.Status.Reloaded,
	})
	a.Status.Reloaded = rolled[:min(len(rolled), maxReloaded)]
	return err
}

// recordContent records the content of the ConfigMap. The first content of a ConfigMap is no change.
func recordContent(s *configv1.AppConfigStatus, hash string, held bool, now time.Time) {
	switch {
	case !held:
		s.LastChangeTime, s.Reloaded = nil, nil
	case s.ConfigHash != hash:
		at := metav1.NewTime(now).Rfc3339Copy()
		s.LastChangeTime, s.Reloaded = &at, nil
	}
	s.ConfigHash = hash
}

// watchRivals queues the AppConfigs of an application when another one of the application goes or leaves it.
func (r *reconciler) watchRivals(informer cache.SharedIndexInformer) error {
	if err := informer.AddIndexers(cache.Indexers{byApplication: func(object any) ([]string, error) {
		a := object.(*configv1.AppConfig)
		return []string{a.Namespace + "/" + a.Spec.Application}, nil
	}}); err != nil {
		return fmt.Errorf("%s: index AppConfigs: %w", Name, err)
	}
	rivals := func(a *configv1.AppConfig) []cache.ObjectName { return r.configsOf(a.Namespace, a.Spec.Application) }
	why := func(before, after *configv1.AppConfig) controller.Reason {
		if before != nil && (after == nil || before.Spec.Application != after.Spec.Application || after.DeletionTimestamp != nil) {
			return controller.DependencyReady
		}
		return 0
	}
	synced, err := controller.AddHandler("rivals of "+Name, informer, controller.MapHandler(r.loop.Queue(), rivals, why))
	r.loop.Await(synced)
	return err
}

// configsOf returns the AppConfigs of an application.
func (r *reconciler) configsOf(namespace, application string) (keys []cache.ObjectName) {
	for _, a := range r.loop.Cached().ByIndex(namespace, byApplication, namespace+"/"+application) {
		keys = append(keys, cache.MetaObjectToName(a))
	}
	return keys
}

// rivalOf returns the AppConfig that keeps the ConfigMap from another one of the same application: the one that has the
// ConfigMap, or else the older one. Ties within one second are broken by UID.
func (r *reconciler) rivalOf(a *configv1.AppConfig) *configv1.AppConfig {
	for _, other := range r.loop.Cached().ByIndex(a.Namespace, byApplication, a.Namespace+"/"+a.Spec.Application) {
		if other = r.loop.Newest(other); other == nil || other.UID == a.UID || other.DeletionTimestamp != nil || holds(a) {
			continue
		}
		if holds(other) || cmp.Or(other.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(other.UID, a.UID)) < 0 {
			return other
		}
	}
	return nil
}

// holds reports whether an AppConfig has applied the ConfigMap of its application.
func holds(a *configv1.AppConfig) bool {
	return slices.ContainsFunc(a.Status.Children.Applied, func(c childv1alpha1.AppliedChild) bool { return c.Name == configMapOf(a) })
}
