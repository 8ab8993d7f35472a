// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp/audit"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
	"github.com/example/demoapp-controller/pkg/metacache"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/pkg/served"
)

var (
	demoAppResource = demov1alpha1.SchemeGroupVersion.WithResource("demoapps")
	secretResource  = corev1.SchemeGroupVersion.WithResource("secrets")
)

// demoApps registers the kind DemoApp.
func demoApps(options *Options, engine *releasekinds.Engine) operator.Kind {
	return operator.Kind{
		Name:      demoapp.Name,
		Resources: []schema.GroupVersionResource{demoAppResource, secretResource},
		Build:     func(env *operator.Environment) error { return buildDemoApps(env, options, engine) },
	}
}

func buildDemoApps(env *operator.Environment, options *Options, shared *releasekinds.Engine) error {
	engine, err := shared.Get(env)
	if err != nil {
		return err
	}
	chart, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		return fmt.Errorf("embedded chart: %w", err)
	}
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	deps := demoapp.Deps{
		Apps:   client.DemoV1alpha1(),
		Engine: engine, Chart: chart,
		Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod:  options.ResyncPeriod,
		Workers:       options.Workers,
		Namespaces:    env.NamespaceMetadata,
		Refuse:        options.refuse,
		Shards:        env.Shards,
		LicenseRetry:  options.LicenseRetry,
		RolloutLimits: options.rolloutLimits(),
	}
	deps.Images = options.images
	if deps.Licenses, err = newLicenses(options); err != nil {
		return err
	}
	if deps.Registries, err = registries.Parse(options.AllowedRegistries); err != nil {
		return fmt.Errorf("--allowed-registries: %w", err)
	}
	if deps.Sources, err = shared.Sources(env); err != nil {
		return err
	}
	deps.Dependencies = shared.Dependencies(env)
	if err := watchForDemoApps(env, client, &deps); err != nil {
		return err
	}
	if deps.Audit, err = newAuditTrail(env, options); err != nil {
		return err
	}
	ctrl, err := demoapp.New(deps)
	if err != nil {
		return err
	}
	shared.Start(env)
	env.AddSharded(demoapp.Name, ctrl.Run, ctrl.Synced()...)
	env.AddController(audit.Name, deps.Audit.Run)
	return nil
}

// demoAppInformers returns the informers of DemoApps. The kinds DemoApp and DemoAppCluster share
// the informers.
func demoAppInformers(env *operator.Environment, client versioned.Interface) (map[string]cache.SharedIndexInformer, error) {
	return informersOf(env, client, "DemoApps", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Demo().V1alpha1().DemoApps().Informer()
	})
}

// watchForDemoApps adds the informers of the kind DemoApp to deps.
func watchForDemoApps(env *operator.Environment, client versioned.Interface, deps *demoapp.Deps) (err error) {
	if deps.AppInformers, err = demoAppInformers(env, client); err != nil {
		return err
	}
	deps.IngressClasses, err = env.OnDemand("IngressClasses", metav1.NamespaceAll, func() (cache.SharedIndexInformer, error) {
		return metacache.NewInformer(nil, env.Clients.Metadata, networkingv1.SchemeGroupVersion.WithResource("ingressclasses"),
			metav1.NamespaceAll, nil, metacache.Identity)
	})
	if err != nil {
		return err
	}
	deps.HTTPRouteDefinition, err = env.OnDemand("CustomResourceDefinition "+demoapp.HTTPRouteCRD, metav1.NamespaceAll, func() (cache.SharedIndexInformer, error) {
		return served.NewDefinitionInformer(env.Clients.Dynamic, demoapp.HTTPRouteCRD)
	})
	return err
}

// newAuditTrail returns the audit trail and adds its informer. The audit namespace is watched even
// if --namespaces does not name it.
func newAuditTrail(env *operator.Environment, options *Options) (*audit.Trail, error) {
	namespace, keys := options.AuditNamespace, demoapp.AuditKeys()
	const watched = "audit records"
	informer, err := env.Informer(watched, namespace, func() (cache.SharedIndexInformer, error) {
		return audit.NewInformer(env.Clients.Metadata, namespace, keys)
	})
	if err != nil {
		return nil, err
	}
	core := env.Clients.Kube.CoreV1()
	return audit.New(audit.Config{
		Namespace: namespace, Manager: programName, Keys: keys, Retention: options.AuditRetention,
		ConfigMaps: core, Namespaces: core, Informer: informer, OnWatchError: env.Metrics.WatchFailures(watched),
		Clock: clock.RealClock{},
	})
}

// newLicenses returns the client of the license server, or nil without --license-url. An answer is
// cached for at most half of --license-retry, so that a retry always sends a request.
func newLicenses(options *Options) (release.Licenses, error) {
	if options.LicenseURL == "" {
		return nil, nil
	}
	at, err := license.ParseURL(options.LicenseURL)
	if err != nil {
		return nil, fmt.Errorf("--license-url: %w", err)
	}
	half := options.LicenseRetry / 2
	return license.New(license.Config{
		URL: at, TTL: min(half, license.DefaultTTL), Pause: min(half, license.DefaultPause), Clock: clock.RealClock{},
	}), nil
}
