// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/served"
)

// Options are the defaults of kinds. The zero value is ready to use.
type Options struct {
	// ResyncPeriod is the time between two periodic reconciles of a kind without its own
	// period. The default is 10 minutes.
	ResyncPeriod time.Duration
	// Workers is the number of custom resources of a kind that are reconciled at a time. The
	// default is 10.
	Workers int
	// Rollout bounds the rollouts of kinds without their own limits, see [watches.ReleaseKind].
	Rollout rollout.Limits
	// Refuse returns the reason why the custom resources of a namespace are not reconciled, or "".
	// Optional.
	Refuse func(namespace string) (why string)
}

// Kinds registers kinds of a program. Invalid kinds end the process at its start.
func Kinds(engine *Engine, options Options, kinds ...watches.ReleaseKind) operator.Kind {
	registered := Func(engine, options, func(*operator.Environment) ([]watches.ReleaseKind, error) { return kinds, nil })
	registered.Rules = rulesOf(kinds)
	return registered
}

// rulesOf returns the rules that kinds need, without the rules of their charts. Kinds that are not
// served need no rules.
func rulesOf(kinds []watches.ReleaseKind) func(served.Snapshot) []operator.Rule {
	return func(snapshot served.Snapshot) []operator.Rule {
		var rules []operator.Rule
		for _, kind := range kinds {
			resource, ok := snapshot.Resource(kind.GroupVersionKind)
			if !ok {
				continue
			}
			inNamespace, ofResource := kind.Rules(resource.GroupResource())
			for _, rule := range inNamespace {
				rules = append(rules, operator.Rule{PolicyRule: rule})
			}
			for _, rule := range ofResource {
				needed := operator.Rule{PolicyRule: rule}
				if !resource.Namespaced {
					needed.Namespaces = []string{metav1.NamespaceAll}
				}
				rules = append(rules, needed)
			}
		}
		return rules
	}
}

// Func registers the kinds that a function returns. The function gets the clients and
// informers of the process, for hooks and translators that read the cluster, and for
// [watches.ReleaseKind].Watches. It is called once, before the process is ready; its error ends the
// process.
func Func(engine *Engine, options Options, kinds func(*operator.Environment) ([]watches.ReleaseKind, error)) operator.Kind {
	engine.cacheAll()
	const name = "releases"
	return operator.Kind{Name: name, Build: func(env *operator.Environment) error {
		built, err := kinds(env)
		if err != nil {
			return err
		}
		manager, err := newManager(env, name, engine, options, built)
		if err != nil {
			return err
		}
		env.AddSharded(name, manager.Run)
		return nil
	}}
}

// newManager returns the manager of the kinds of a registered kind.
func newManager(
	env *operator.Environment, registered string, shared *Engine, options Options, kinds []watches.ReleaseKind,
) (*watches.Manager, error) {
	engine, err := shared.Get(env)
	if err != nil {
		return nil, err
	}
	sources, err := shared.Sources(env)
	if err != nil {
		return nil, err
	}
	if options.ResyncPeriod <= 0 {
		options.ResyncPeriod = 10 * time.Minute
	}
	unselected, err := unselectedGauge(env.Registry)
	if err != nil {
		return nil, err
	}
	manager, err := watches.NewManager(watches.Deps{
		Engine: engine, RESTConfig: env.Clients.Config, HTTPClient: env.Clients.HTTP, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics,
		Sources: sources, Dependencies: shared.Dependencies(env),
		Clock: clock.RealClock{}, Namespaces: env.Namespaces, NamespaceMetadata: env.NamespaceMetadata,
		FieldManager: env.Name(), ResyncPeriod: options.ResyncPeriod, Workers: options.Workers, Rollout: options.Rollout,
		Waiting: env.SetWaiting, Refuse: options.Refuse, Shards: env.Shards,
		Report:     func(kinds []schema.GroupKind) { env.ReportKinds(registered, kinds) },
		Unselected: func(kind string, count int) { unselected.WithLabelValues(kind).Set(float64(count)) },
		Permitted: func(ctx context.Context, kind watches.ReleaseKind) error {
			return env.Permitted(ctx, kind.Name(), rulesOf([]watches.ReleaseKind{kind}))
		},
	}, kinds...)
	if err != nil {
		return nil, err
	}
	shared.Start(env)
	return manager, nil
}
