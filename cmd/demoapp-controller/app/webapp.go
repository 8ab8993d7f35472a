// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/cleanup"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/images"
	"github.com/example/demoapp-controller/pkg/operator"
)

// webApps registers the kind WebApp.
func webApps(options *Options) operator.Kind {
	return operator.Kind{
		Name: webapp.Name,
		Resources: []schema.GroupVersionResource{
			examplev1.SchemeGroupVersion.WithResource("webapps"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: func(env *operator.Environment) error { return buildWebApps(env, options) },
	}
}

func buildWebApps(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "WebApps", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Example().V1().WebApps().Informer()
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "Deployment", "Service")
	if err != nil {
		return err
	}
	policies, err := webAppOptions(options)
	if err != nil {
		return err
	}
	set, err := explainedSet(env, webapp.Kind, examplev1.LabelWebApp, children...)
	if err != nil {
		return err
	}
	loop, err := webapp.New(client.ExampleV1(), set, policies, kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	observeBlocked(env.Registry, policies.Blocked.Entries(), loop.Blocked)
	env.AddSharded(webapp.Name, loop.Run, loop.Synced()...)
	return nil
}

// webAppOptions returns the options of the flags.
func webAppOptions(options *Options) (webapp.Options, error) {
	blocked, err := images.ParseBlocklist(options.BlockedImages)
	if err != nil {
		return webapp.Options{}, fmt.Errorf("--blocked-images: %w", err)
	}
	if options.WebAppCleanupURL == "" {
		return webapp.Options{Blocked: blocked}, nil
	}
	at, err := cleanup.ParseURL(options.WebAppCleanupURL)
	if err != nil {
		return webapp.Options{}, fmt.Errorf("--webapp-cleanup-url: %w", err)
	}
	return webapp.Options{Blocked: blocked, Cleanup: cleanup.New(cleanup.Config{URL: at})}, nil
}

// observeBlocked registers one gauge per entry of --blocked-images.
func observeBlocked(registry prometheus.Registerer, entries []string, counts func() map[string]int) {
	for _, entry := range entries {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "webapps_with_blocked_image",
			Help:        "WebApps whose image is blocked, by the entry of --blocked-images.",
			ConstLabels: prometheus.Labels{"entry": entry},
		}, func() float64 { return float64(counts()[entry]) }))
	}
}
