// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/audit"
	"github.com/example/demoapp-controller/pkg/controller/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/demoappcluster"
	"github.com/example/demoapp-controller/pkg/controller/license"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// Named is a controller of the process. Run works until stop ends and what was in flight is finished, or until lead
// ends; it returns when all its goroutines have ended.
type Named struct {
	Name string
	Run  func(stop, lead context.Context) error
}

// assembly is what the process does once it can talk to the API server.
type assembly struct {
	// services start in this order, before leader election.
	services []service
	// controllers run on the leader.
	controllers []Named
	// synced must all be true before the process is ready.
	synced []controller.NamedSync
}

// dependencies are what controllers are built from; each is handed only what it needs.
type dependencies struct {
	config   Config
	clients  *clients
	recorder events.EventRecorder
	metrics  *processMetrics
}

// assemble lists every controller of the process and the services that they need. A new kind is added here.
func assemble(deps dependencies) (*assembly, error) {
	engine, err := helm.New(helm.Config{
		RESTConfig:  deps.clients.config,
		HTTPClient:  deps.clients.http,
		Namespaces:  deps.config.Namespaces,
		Logger:      slog.Default(),
		OnOperation: deps.metrics.observeOperation,
	})
	if err != nil {
		return nil, err
	}
	a := &assembly{}
	apps := map[string]cache.SharedIndexInformer{}
	for _, namespace := range watchedNamespaces(deps.config.Namespaces) {
		apps[namespace] = a.watchDemoApps(deps.clients.demo, namespace)
	}
	if err := a.addDemoApps(deps, engine, apps); err != nil {
		return nil, err
	}
	if err := a.addDemoAppClusters(deps, apps); err != nil {
		return nil, err
	}
	a.services = append(a.services, service{name: "helm engine", run: func(ctx context.Context) error {
		engine.Run(ctx)
		return nil
	}})
	return a, nil
}

// addDemoApps adds the controller of DemoApps and the informers that it reads.
func (a *assembly) addDemoApps(deps dependencies, engine *helm.Engine, apps map[string]cache.SharedIndexInformer) error {
	chart, err := helm.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		return fmt.Errorf("embedded chart: %w", err)
	}
	secrets := map[string]cache.SharedIndexInformer{}
	configMaps := map[string]demoapp.Watch{}
	for _, namespace := range watchedNamespaces(deps.config.Namespaces) {
		if secrets[namespace], err = a.watchSecrets(deps.clients.metadata, namespace); err != nil {
			return err
		}
		configMaps[namespace], err = a.watchOnDemand("informer of ConfigMaps", namespace, metadatainformer.NewFilteredMetadataInformer(
			deps.clients.metadata, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, 0, cache.Indexers{}, nil).Informer(), identityOnly)
		if err != nil {
			return err
		}
	}
	licenses, err := newLicenses(deps.config)
	if err != nil {
		return err
	}
	classes, err := a.watchOnDemand("informer of IngressClasses", "", metadatainformer.NewFilteredMetadataInformer(
		deps.clients.metadata, networkingv1.SchemeGroupVersion.WithResource("ingressclasses"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), identityOnly)
	if err != nil {
		return err
	}
	definition, err := a.watchDefinition(deps.clients.dynamic, demoapp.HTTPRouteCRD)
	if err != nil {
		return err
	}
	allowed, err := registries.Parse(deps.config.AllowedRegistries)
	if err != nil {
		return fmt.Errorf("--allowed-registries: %w", err)
	}
	trail, err := a.addAudit(deps)
	if err != nil {
		return err
	}
	core := deps.clients.kube.CoreV1()
	room, err := demoapp.New(demoapp.Deps{
		Apps: deps.clients.demo.DemoV1alpha1(), AppInformers: apps,
		Secrets: core, SecretInformers: secrets,
		ConfigMapWatches: configMaps,
		IngressClasses:   classes, HTTPRouteDefinition: definition,
		ConfigMaps: core, Audit: trail,
		Engine: engine, Chart: chart,
		Recorder: deps.recorder, Metrics: deps.metrics.controllers, Clock: clock.RealClock{},
		ResyncPeriod:  deps.config.ResyncPeriod,
		Workers:       deps.config.Workers,
		Licenses:      licenses,
		LicenseRetry:  deps.config.LicenseRetry,
		RolloutLimits: rollout.Limits{Active: deps.config.MaxConcurrentRollouts, Failed: deps.config.RolloutFailureThreshold},
		Registries:    allowed,
	})
	if err != nil {
		return err
	}
	deps.metrics.observeRollouts(room.Rollouts)
	a.synced = append(a.synced, room.Synced()...)
	a.controllers = append(a.controllers, Named{Name: demoapp.Name, Run: room.Run}, Named{Name: audit.Name, Run: trail.Run})
	return nil
}

// addAudit adds the audit records and the informer that counts them. The audit namespace is watched whatever
// --namespaces says.
func (a *assembly) addAudit(deps dependencies) (*audit.Trail, error) {
	namespace := deps.config.AuditNamespace
	informer := metadatainformer.NewFilteredMetadataInformer(deps.clients.metadata, corev1.SchemeGroupVersion.WithResource("configmaps"),
		namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector = demoapp.AuditKeys().SourceNamespace
		}).Informer()
	core := deps.clients.kube.CoreV1()
	trail, err := audit.New(audit.Config{
		Namespace: namespace, Manager: programName, Keys: demoapp.AuditKeys(), Retention: deps.config.AuditRetention,
		ConfigMaps: core, Namespaces: core, Informer: informer, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	a.services = append(a.services, informerService("informer of audit records", namespace, informer))
	return trail, nil
}

// addDemoAppClusters adds the controller of DemoAppClusters, which shares the informers of DemoApps.
func (a *assembly) addDemoAppClusters(deps dependencies, apps map[string]cache.SharedIndexInformer) error {
	clusters := map[string]cache.SharedIndexInformer{}
	for _, namespace := range watchedNamespaces(deps.config.Namespaces) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(deps.clients.demo, 0, externalversions.WithNamespace(namespace))
		clusters[namespace] = factory.Demo().V1alpha1().DemoAppClusters().Informer()
		a.services = append(a.services, informerService("informer of DemoAppClusters", namespace, clusters[namespace]))
	}
	nodes, err := a.watchOnDemand("informer of Nodes", metav1.NamespaceAll, metadatainformer.NewFilteredMetadataInformer(
		deps.clients.metadata, corev1.SchemeGroupVersion.WithResource("nodes"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), demoappcluster.KeepNode)
	if err != nil {
		return err
	}
	room, err := demoappcluster.New(demoappcluster.Deps{
		Client: deps.clients.demo.DemoV1alpha1(), ClusterInformers: clusters, AppInformers: apps, Nodes: nodes,
		Recorder: deps.recorder, Metrics: deps.metrics.controllers, Clock: clock.RealClock{},
		ResyncPeriod: deps.config.ResyncPeriod,
	})
	if err != nil {
		return err
	}
	a.synced = append(a.synced, room.Synced()...)
	a.controllers = append(a.controllers, Named{Name: demoappcluster.Name, Run: room.Run})
	return nil
}

// newLicenses returns the client of the license server; nil when there is none. No answer outlives the time after which
// it is asked for again.
func newLicenses(config Config) (demoapp.Licenses, error) {
	if config.LicenseURL == "" {
		return nil, nil
	}
	at, err := license.ParseURL(config.LicenseURL)
	if err != nil {
		return nil, fmt.Errorf("--license-url: %w", err)
	}
	half := config.LicenseRetry / 2
	return license.New(license.Config{
		URL: at, TTL: min(half, license.DefaultTTL), Pause: min(half, license.DefaultPause), Clock: clock.RealClock{},
	}), nil
}

func (a *assembly) watchDemoApps(client versioned.Interface, namespace string) cache.SharedIndexInformer {
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	informer := factory.Demo().V1alpha1().DemoApps().Informer()
	a.services = append(a.services, informerService("informer of DemoApps", namespace, informer))
	return informer
}

// watchSecrets watches the metadata of the Secrets that a DemoApp may name: all but Helm's release records, which are
// many, change often, and are nobody's API key.
func (a *assembly) watchSecrets(client metadata.Interface, namespace string) (cache.SharedIndexInformer, error) {
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermNotEqualSelector("type", "helm.sh/release.v1").String()
	})
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer()
	if err := informer.SetTransform(identityOnly); err != nil {
		return nil, fmt.Errorf("watch Secrets: %w", err)
	}
	a.services = append(a.services, informerService("informer of Secrets", namespace, informer))
	return informer, nil
}

// watchDefinition watches one CustomResourceDefinition, from when that is first needed. Its metadata would not tell whether
// it is served.
func (a *assembly) watchDefinition(client dynamic.Interface, name string) (*controller.OnDemand, error) {
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, definitions, metav1.NamespaceAll, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}).Informer()
	return a.watchOnDemand("informer of CustomResourceDefinition "+name, metav1.NamespaceAll, informer, servedOnly)
}

// watchOnDemand makes an informer one that runs from when it is first needed, and that keeps of each object what keep
// leaves of it.
func (a *assembly) watchOnDemand(name, namespace string, informer cache.SharedIndexInformer, keep cache.TransformFunc) (*controller.OnDemand, error) {
	if err := informer.SetTransform(keep); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	demand, err := controller.NewOnDemand(informer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if namespace != "" {
		name += " in " + namespace
	}
	a.services = append(a.services, service{name: name, run: func(ctx context.Context) error {
		demand.Run(ctx)
		return nil
	}})
	return demand, nil
}

// identityOnly keeps of an object's metadata what tells it, and its versions, apart.
func identityOnly(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
	}}, nil
}

// servedOnly keeps of a CustomResourceDefinition what tells whether, and in which versions, it is served. Most of one is its
// schemas.
func servedOnly(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(whole.GroupVersionKind())
	kept.SetName(whole.GetName())
	kept.SetUID(whole.GetUID())
	kept.SetResourceVersion(whole.GetResourceVersion())
	kept.SetDeletionTimestamp(whole.GetDeletionTimestamp())
	var versions []any
	defined, _, err := unstructured.NestedFieldNoCopy(whole.Object, "spec", "versions")
	if list, ok := defined.([]any); ok && err == nil {
		for _, item := range list {
			if version, ok := item.(map[string]any); ok {
				versions = append(versions, map[string]any{"name": version["name"], "served": version["served"]})
			}
		}
	}
	kept.Object["spec"] = map[string]any{"versions": versions}
	if conditions, found, err := unstructured.NestedSlice(whole.Object, "status", "conditions"); found && err == nil {
		kept.Object["status"] = map[string]any{"conditions": conditions}
	}
	return kept, nil
}

// watchedNamespaces returns the namespaces to build informers for; one that is empty stands for all.
func watchedNamespaces(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return namespaces
}

// informerService runs an informer, and waits for it.
func informerService(name, namespace string, informer cache.SharedIndexInformer) service {
	if namespace != "" {
		name += " in " + namespace
	}
	return service{name: name, run: func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	}}
}
