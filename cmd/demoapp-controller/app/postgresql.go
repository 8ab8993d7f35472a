// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/operator"
)

// builtPostgreSQLs receives the additions of the optional part of the kind.
type builtPostgreSQLs struct {
	children *child.Set
	backups  *postgresql.Backups
	loop     child.Loop
}

// postgreSQLs registers the kind PostgreSQL, and its Backups as an optional part.
func postgreSQLs(options *Options) operator.Kind {
	built := &builtPostgreSQLs{}
	core := corev1.SchemeGroupVersion
	return operator.Kind{
		Name: postgresql.Name,
		Resources: []schema.GroupVersionResource{
			databasev1.SchemeGroupVersion.WithResource("postgresqls"), core.WithResource("secrets"),
			core.WithResource("persistentvolumeclaims"), core.WithResource("pods"), core.WithResource("configmaps"),
			core.WithResource("services"), appsv1.SchemeGroupVersion.WithResource("statefulsets"),
			policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		},
		Build: func(env *operator.Environment) error { return built.build(env, options) },
		Optional: []operator.Kind{{
			Name:      "backups",
			Resources: []schema.GroupVersionResource{backupv1.SchemeGroupVersion.WithResource("backups")},
			Build:     built.addBackups,
		}},
	}
}

func (b *builtPostgreSQLs) build(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := postgreSQLInformers(env, client)
	if err != nil {
		return err
	}
	observed, err := postgresql.NewObserved(env, env.Clients.Kube)
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget")
	if err != nil {
		return err
	}
	b.children, b.backups = child.NewSet(postgresql.Kind, children...).Optional(postgresql.BackupKind), &postgresql.Backups{}
	loop, err := postgresql.New(client.DatabaseV1(), b.children, observed, b.backups, options.images, naming.Domain(options.ClusterDomain),
		options.destination, kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	b.loop = loop
	env.AddSharded(postgresql.Name, loop.Run, loop.Synced()...)
	return nil
}

// addBackups makes Backups children, once they are served.
func (b *builtPostgreSQLs) addBackups(env *operator.Environment) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := backupInformers(env, client)
	if err != nil {
		return err
	}
	if err := b.backups.Add(b.loop, informers); err != nil {
		return err
	}
	backups, err := child.WatchedBy(informers, postgresql.BackupKind, client.BackupV1().Backups)
	if err != nil {
		return err
	}
	return addChildren(env, postgresql.Name+"/backups", b.children, b.loop, backups)
}

// postgreSQLInformers returns the informers of PostgreSQLs. The kind PostgreSQL and the kinds with
// children of this kind share the informers.
func postgreSQLInformers(env *operator.Environment, client versioned.Interface) (map[string]cache.SharedIndexInformer, error) {
	return informersOf(env, client, "PostgreSQLs", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Database().V1().PostgreSQLs().Informer()
	})
}

// postgreSQLChildren returns the kind PostgreSQL as a kind of children. A change of their spec
// restarts databases.
func postgreSQLChildren(env *operator.Environment, client versioned.Interface) (child.ManagedKind, error) {
	informers, err := postgreSQLInformers(env, client)
	if err != nil {
		return child.ManagedKind{}, err
	}
	databases, err := child.WatchedBy(informers, databasev1.SchemeGroupVersion.WithKind("PostgreSQL"), client.DatabaseV1().PostgreSQLs)
	return databases.WithHealth(tier.DatabaseHealth).KeepUntilChange(child.DatabaseRuns, "spec"), err
}
