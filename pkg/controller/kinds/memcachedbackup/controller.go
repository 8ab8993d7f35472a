// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memcachedbackup

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	cacheclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/cache/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Name is the controller's name in logs and metrics.
const Name = "memcachedbackup"

// Kind is the kind of the owners of the children.
var Kind = cachev1.SchemeGroupVersion.WithKind("MemcachedBackup")

type (
	pass = kind.Pass[*cachev1.MemcachedBackup]
	loop = kind.Loop[*cachev1.MemcachedBackup, cachev1.MemcachedBackupStatus]
)

// New wires the controller of MemcachedBackups, of their children and of their pods. It
// starts nothing.
func New(
	client cacheclient.MemcachedBackupsGetter, children *child.Set, pods child.PodHealth, from images.Table, deps kind.Deps,
) (*loop, error) {
	children = children.ExplainedBy(pods)
	l, err := kind.New(kind.Definition[*cachev1.MemcachedBackup, cachev1.MemcachedBackupStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client: func(namespace string) controller.Patcher[*cachev1.MemcachedBackup] {
			return client.MemcachedBackups(namespace)
		},
		Status:     func(m *cachev1.MemcachedBackup) *cachev1.MemcachedBackupStatus { return &m.Status },
		Conditions: func(s *cachev1.MemcachedBackupStatus) *[]metav1.Condition { return &s.Conditions },
		Steps: func(ctx context.Context, p *pass) error {
			state, err := children.Ensure(ctx, p.Object, &p.Object.Status.Children, p.Now, Desired(p.Object, from))
			summarize(p, state, pods.Names(p.Key()), err)
			return err
		},
		Hold: func(written, next cachev1.MemcachedBackupStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events: transitions,
	}, deps)
	if err != nil {
		return nil, err
	}
	return l, children.Watch(l)
}
