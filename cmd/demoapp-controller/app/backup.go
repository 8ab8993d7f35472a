// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/runs"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/secretkeys"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/operator"
)

// backups registers the kind Backup.
func backups(options *Options) operator.Kind {
	return operator.Kind{
		Name: backup.Name,
		Resources: []schema.GroupVersionResource{
			backupv1.SchemeGroupVersion.WithResource("backups"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			batchv1.SchemeGroupVersion.WithResource("cronjobs"), batchv1.SchemeGroupVersion.WithResource("jobs"), secretResource,
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: func(env *operator.Environment) error { return buildBackups(env, options) },
	}
}

func buildBackups(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := backupInformers(env, client)
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "ConfigMap", "CronJob")
	if err != nil {
		return err
	}
	jobs, err := runs.New(env, env.Clients.Kube, backupv1.LabelBackup)
	if err != nil {
		return err
	}
	pods, err := child.NewPodHealth(env, env.Clients.Kube, backupv1.LabelBackup)
	if err != nil {
		return err
	}
	secrets, err := secretkeys.New(env, env.Clients.Metadata, backup.SecretKeys()...)
	if err != nil {
		return err
	}
	loop, err := backup.New(client.BackupV1(), child.NewSet(backup.Kind, children...), jobs, pods, secrets, options.images, kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	env.AddSharded(backup.Name, loop.Run, loop.Synced()...)
	return nil
}

// backupInformers returns the informers of Backups. The kinds that make Backups share them with the
// kind Backup.
func backupInformers(env *operator.Environment, client versioned.Interface) (map[string]cache.SharedIndexInformer, error) {
	return informersOf(env, client, "Backups", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Backup().V1().Backups().Informer()
	})
}
