// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig/reload"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/claim"
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

// applications are the claims to applications, as namespace/application. One AppConfig has the
// ConfigMap of each.
var applications = claim.Claims[*configv1.AppConfig]{
	Name:      "application",
	Requested: func(a *configv1.AppConfig) string { return a.Namespace + "/" + a.Spec.Application },
	Held: func(a *configv1.AppConfig) string {
		for _, applied := range a.Status.Children.Applied {
			return a.Namespace + "/" + strings.TrimSuffix(applied.Name, configMapSuffix)
		}
		return ""
	},
	Shown: func(a *configv1.AppConfig) string { return a.Spec.Application },
}

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
	clock     clock.PassiveClock
}

// New wires the controller of AppConfigs, of their children, and of the workloads that use them. It
// starts nothing.
func New(client configclient.AppConfigsGetter, children *child.Set, workloads *reload.Workloads, deps kind.Deps) (*loop, error) {
	r := &reconciler{children: children, workloads: workloads, clock: deps.Clock}
	var err error
	r.loop, err = kind.New(kind.Definition[*configv1.AppConfig, configv1.AppConfigStatus]{
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
	return r.loop, errors.Join(
		children.Watch(r.loop), workloads.Watch(r.loop, r.configsOf), applications.Watch(r.loop, deps.Informers))
}

func (r *reconciler) steps(ctx context.Context, p *pass) error {
	status := &p.Object.Status
	status.ObservedGeneration = p.Object.Generation
	data, err := render(p.Object)
	summarizeRendering(p, err)
	if err != nil {
		return controller.Terminal(err)
	}
	if message := applications.Refusal(r.loop, p.Object, "spec.application", Kind.Kind); message != "" {
		p.Conditions().MarkStalled(apimeta.ReasonOwnershipConflict, message)
		return controller.Terminal(errors.New(message))
	}
	state, err := r.children.Ensure(ctx, p.Object, &status.Children, p.Now, desired(p.Object, data))
	if err != nil || len(state.Waiting) > 0 || state.Of("ConfigMap", configMapOf(p.Object)).UID == "" {
		return summarize(p, state, err)
	}
	hash := hashOf(data)
	if len(state.Held) > 0 {
		hash = status.ConfigHash // The ConfigMap has the content of an earlier operator.
	}
	recordContent(status, hash, applications.Held(p.Observed) == applications.Requested(p.Observed), r.clock.Now())
	rolled, err := r.reload(ctx, p.Object)
	if summarizeReload(p, rolled, err) {
		return summarize(p, state, nil)
	}
	child.RequeueAfter(p, state)
	return err
}

// reload rolls the workloads whose pods may have started with earlier content.
func (r *reconciler) reload(ctx context.Context, a *configv1.AppConfig) ([]reload.Rolled, error) {
	rolled, err := r.workloads.Roll(ctx, reload.Content{
		Namespace: a.Namespace, Name: a.Spec.Application, Hash: a.Status.ConfigHash,
		Changed: a.Status.LastChangeTime, Rolled: a.Status.Reloaded, ByLabel: a.Status.ReloadedByLabel == a.Status.ConfigHash,
	}, r.clock.Now())
	a.Status.Reloaded = nil
	for _, workload := range rolled[:min(len(rolled), maxReloaded)] {
		a.Status.Reloaded = append(a.Status.Reloaded, workload.ID)
	}
	return rolled, err
}

// recordContent records the content of the ConfigMap. The first content of a ConfigMap is no
// change. now is a time after the apply, because pods that start before it have earlier content. A status
// without the condition Reloaded is of an operator that rolled only workloads with the label.
func recordContent(s *configv1.AppConfigStatus, hash string, held bool, now time.Time) {
	switch {
	case !held:
		s.LastChangeTime, s.Reloaded = nil, nil
	case s.ConfigHash != hash:
		at := metav1.NewTime(now).Rfc3339Copy()
		s.LastChangeTime, s.Reloaded = &at, nil
	case meta.FindStatusCondition(s.Conditions, configv1.ConditionReloaded) == nil:
		s.ReloadedByLabel = hash
	}
	if s.ConfigHash != hash {
		s.ReloadedByLabel = ""
		meta.RemoveStatusCondition(&s.Conditions, configv1.ConditionReloaded)
	}
	s.ConfigHash = hash
}

// configsOf returns the AppConfigs of an application.
func (r *reconciler) configsOf(namespace, application string) (keys []cache.ObjectName) {
	for _, a := range r.loop.Cached().ByIndex(namespace, applications.Name, namespace+"/"+application) {
		keys = append(keys, cache.MetaObjectToName(a))
	}
	return keys
}
