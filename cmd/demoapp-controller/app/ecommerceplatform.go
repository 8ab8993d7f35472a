// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/ecommerceplatform"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/mysql"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/operator"
)

// platforms builds the kind EcommercePlatform, and its optional children after it.
type platforms struct {
	options  *Options
	client   versioned.Interface
	children *child.Set
	loop     child.Loop
}

// ecommercePlatforms registers the kind EcommercePlatform.
func ecommercePlatforms(options *Options) operator.Kind {
	p := &platforms{options: options}
	serviceMonitors := tier.ServiceMonitor.GroupVersion().WithResource("servicemonitors")
	return operator.Kind{
		Name: ecommerceplatform.Name,
		Resources: []schema.GroupVersionResource{
			platformv1.SchemeGroupVersion.WithResource("ecommerceplatforms"), databasev1.SchemeGroupVersion.WithResource("postgresqls"),
			corev1.SchemeGroupVersion.WithResource("configmaps"), corev1.SchemeGroupVersion.WithResource("secrets"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("services"), appsv1.SchemeGroupVersion.WithResource("deployments"),
			appsv1.SchemeGroupVersion.WithResource("statefulsets"), networkingv1.SchemeGroupVersion.WithResource("ingresses"),
			networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		},
		Build: p.build,
		Optional: []operator.Kind{
			{
				Name: "backups", Resources: []schema.GroupVersionResource{backupv1.SchemeGroupVersion.WithResource("backups")},
				Build: p.addBackups,
			},
			{
				Name: "servicemonitors", Resources: []schema.GroupVersionResource{serviceMonitors},
				Build: func(env *operator.Environment) error {
					monitors, err := child.Dynamic(env, env.Clients.Dynamic, tier.ServiceMonitor, serviceMonitors)
					if err != nil {
						return err
					}
					return addChildren(env, ecommerceplatform.Name+"/servicemonitors", p.children, p.loop, monitors)
				},
			},
		},
	}
}

func (p *platforms) build(env *operator.Environment) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "EcommercePlatforms", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Platform().V1().EcommercePlatforms().Informer()
	})
	if err != nil {
		return err
	}
	postgreSQL, err1 := postgreSQLChildren(env, client)
	builtin, err2 := child.Builtin(env, env.Clients.Kube,
		"ConfigMap", "Service", "Deployment", "StatefulSet", "Ingress", "NetworkPolicy", "PodDisruptionBudget")
	credentials, err3 := mysql.NewCredentials(env, env.Clients.Kube, platformv1.LabelPlatform)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	set, err := explainedSet(env, ecommerceplatform.Kind, platformv1.LabelPlatform, append(builtin, postgreSQL.WithCondition(tier.BackupConfigured))...)
	if err != nil {
		return err
	}
	p.client = client
	p.children = set.Optional(tier.ServiceMonitor, backupv1.SchemeGroupVersion.WithKind("Backup"))
	loop, err := ecommerceplatform.New(client.PlatformV1(), p.children, credentials, p.options.PlatformHosts, p.options.images,
		naming.Domain(p.options.ClusterDomain), p.options.destination, kindDeps(env, p.options, informers))
	if err != nil {
		return err
	}
	p.loop = loop
	env.AddSharded(ecommerceplatform.Name, loop.Run, loop.Synced()...)
	return nil
}

// addBackups adds the Backups of databases of type mysql.
func (p *platforms) addBackups(env *operator.Environment) error {
	informers, err := backupInformers(env, p.client)
	if err != nil {
		return err
	}
	backups, err := child.WatchedBy(informers, backupv1.SchemeGroupVersion.WithKind("Backup"), p.client.BackupV1().Backups)
	if err != nil {
		return err
	}
	return addChildren(env, ecommerceplatform.Name+"/backups", p.children, p.loop, backups.WithCondition(datastore.Suspended))
}
