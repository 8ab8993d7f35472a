// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/operator"
)

// informerFactory hands out the generated informers of one namespace.
type informerFactory = externalversions.SharedInformerFactory

// typedClient returns the generated client of the custom resources of all kinds.
func typedClient(env *operator.Environment) (versioned.Interface, error) {
	client, err := versioned.NewForConfigAndClient(env.Clients.Config, env.Clients.HTTP)
	if err != nil {
		return nil, fmt.Errorf("building the client of custom resources: %w", err)
	}
	return client, nil
}

// informersOf returns the generated informers of a kind, by watched namespace. Kinds that pass the
// same name share them. The objects have no metadata that the operator does not read, see
// controller.Slim.
func informersOf(
	env *operator.Environment, client versioned.Interface, name string, of func(informerFactory) cache.SharedIndexInformer,
) (map[string]cache.SharedIndexInformer, error) {
	return env.Informers(name, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := of(externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace)))
		return informer, informer.SetTransform(slim)
	})
}

// slim is a transform that drops the metadata which the operator does not read.
func slim(object any) (any, error) {
	if whole, ok := object.(metav1.Object); ok {
		controller.Slim(whole, isOwnAnnotation)
	}
	return object, nil
}

// isOwnAnnotation reports whether the domain of an annotation is the API group of a kind, or below
// it.
func isOwnAnnotation(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	for domain != "" && !scheme.Scheme.IsGroupRegistered(domain) {
		_, domain, _ = strings.Cut(domain, ".")
	}
	return domain != ""
}

// kindDeps returns the dependencies of the loop of a kind with these informers.
func kindDeps(env *operator.Environment, options *Options, informers map[string]cache.SharedIndexInformer) kind.Deps {
	return kind.Deps{
		Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: options.ResyncPeriod, Workers: options.Workers, Namespaces: env.NamespaceMetadata, Refuse: options.refuse,
		Shards: env.Shards, Rollout: options.rolloutLimits(),
	}
}

// addChildren runs an optional kind of children, whose API is served now. name is the name of the
// part in logs.
func addChildren(env *operator.Environment, name string, set *child.Set, loop child.Loop, kind child.ManagedKind) error {
	added, err := set.Add(loop, kind)
	if err != nil {
		return err
	}
	env.AddSharded(name, added.Run, added.Synced()...)
	return nil
}

// explainedSet returns a set that says which pods with a label do not start. The value of the label
// is the name of the owner.
func explainedSet(env *operator.Environment, owner schema.GroupVersionKind, label string, kinds ...child.ManagedKind) (*child.Set, error) {
	pods, err := child.NewPodHealth(env, env.Clients.Kube, label)
	if err != nil {
		return nil, err
	}
	return child.NewSet(owner, kinds...).ExplainedBy(pods), nil
}
