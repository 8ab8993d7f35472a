// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/backup"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/runs"
	"github.com/example/demoapp-controller/pkg/controller/secretkeys"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/operator"
)

// backups registers the kind Backup.
func backups(options *Options) operator.Kind {
	return operator.Kind{
		Name: backup.Name,
		Resources: []schema.GroupVersionResource{
			backupv1.SchemeGroupVersion.WithResource("backups"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			batchv1.SchemeGroupVersion.WithResource("cronjobs"), batchv1.SchemeGroupVersion.WithResource("jobs"), secretResource,
		},
		Build: func(env *operator.Environment) error { return buildBackups(env, options) },
	}
}

func buildBackups(env *operator.Environment, options *Options) error {
	client, err := demoClient(env)
	if err != nil {
		return err
	}
	informers, err := env.Informers("Backups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
		return factory.Backup().V1().Backups().Informer(), nil
	})
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
	secrets, err := secretkeys.New(env, env.Clients.Metadata, backup.SecretKeys()...)
	if err != nil {
		return err
	}
	loop, err := backup.New(client.BackupV1(), child.NewSet(backup.Kind, children...), jobs, secrets, kind.Deps{
		Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: options.ResyncPeriod, Workers: options.Workers,
	})
	if err != nil {
		return err
	}
	env.AddController(backup.Name, loop.Run, loop.Synced()...)
	return nil
}
