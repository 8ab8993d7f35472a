// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	appclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/app/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Name is the controller's name in logs and metrics.
const Name = "appstack"

// Kind is the kind of the owners of the children.
var Kind = appv1.SchemeGroupVersion.WithKind("AppStack")

type (
	pass = kind.Pass[*appv1.AppStack]
	loop = kind.Loop[*appv1.AppStack, appv1.AppStackStatus]
)

// New wires the controller of AppStacks and of their children. It starts nothing. domain is for
// the endpoints in the status.
func New(client appclient.AppStacksGetter, children *child.Set, pull images.Table, domain naming.Domain, deps kind.Deps) (*loop, error) {
	l, err := kind.New(kind.Definition[*appv1.AppStack, appv1.AppStackStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client:     func(namespace string) controller.Patcher[*appv1.AppStack] { return client.AppStacks(namespace) },
		Status:     func(s *appv1.AppStack) *appv1.AppStackStatus { return &s.Status },
		Conditions: func(s *appv1.AppStackStatus) *[]metav1.Condition { return &s.Conditions },
		Steps: func(ctx context.Context, p *pass) error {
			restricted, known := deps.Namespaces.EnforcesRestricted(p.Object.Namespace)
			if !known {
				return nil // The Namespace starts another pass when it appears.
			}
			desired := components(p.Object, pull, domain, restricted)
			outcome := component.Ensure(ctx, children, p.Object, &p.Object.Status.Children, p.Now, desired...)
			summarize(p, outcome)
			return outcome.Err
		},
		Hold: func(written, next appv1.AppStackStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events: transitions,
	}, deps)
	if err != nil {
		return nil, err
	}
	return l, children.Watch(l)
}
