// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/claim"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/mysql"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	platformclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/platform/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Name is the controller's name in logs and metrics.
const Name = "ecommerceplatform"

// Kind is the kind of the owners of the children.
var Kind = platformv1.SchemeGroupVersion.WithKind("EcommercePlatform")

type (
	pass = kind.Pass[*platformv1.EcommercePlatform]
	loop = kind.Loop[*platformv1.EcommercePlatform, platformv1.EcommercePlatformStatus]
)

// hostClaims returns the claims of platforms to the hosts of their Ingresses. reserved maps hosts
// to the namespaces that alone may have them and their subdomains.
func hostClaims(reserved map[string]string) claim.Claims[*platformv1.EcommercePlatform] {
	return claim.Claims[*platformv1.EcommercePlatform]{
		Name: "host",
		Requested: func(p *platformv1.EcommercePlatform) string {
			return ptr.Deref(p.Spec.Ingress, platformv1.PlatformIngress{}).Host
		},
		Held:     func(p *platformv1.EcommercePlatform) string { return p.Status.Host },
		Reserved: claim.ReservedHosts(reserved),
	}
}

// New wires the controller of EcommercePlatforms and of their children. It starts nothing. reserved
// maps hosts to the namespaces that alone may have them and their subdomains. domain is for the
// endpoints in the status. destination is for backups without their own.
func New(
	client platformclient.EcommercePlatformsGetter, children *child.Set, credentials *mysql.Credentials, reserved map[string]string,
	pull images.Table, domain naming.Domain, destination datastore.DefaultDestination, deps kind.Deps,
) (*loop, error) {
	hosts := hostClaims(reserved)
	var l *loop
	l, err := kind.New(kind.Definition[*platformv1.EcommercePlatform, platformv1.EcommercePlatformStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client: func(namespace string) controller.Patcher[*platformv1.EcommercePlatform] {
			return client.EcommercePlatforms(namespace)
		},
		Status:     func(p *platformv1.EcommercePlatform) *platformv1.EcommercePlatformStatus { return &p.Status },
		Conditions: func(s *platformv1.EcommercePlatformStatus) *[]metav1.Condition { return &s.Conditions },
		Steps: func(ctx context.Context, p *pass) error {
			restricted, known := deps.Namespaces.EnforcesRestricted(p.Object.Namespace)
			if !known {
				return nil // The Namespace starts another pass when it appears.
			}
			taken := hosts.Refusal(l, p.Object, "spec.ingress.host", Kind.Kind)
			app := application(p.Object, destination, restricted)
			app.Images, app.Domain = pull, domain
			problem, err := app.EnsureCredentials(ctx, credentials, p.Object)
			var outcome component.Outcome
			if problem == nil && err == nil || len(p.Object.Status.Children.Applied) > 0 {
				// Without credentials no component is created. Components that exist are kept.
				outcome = component.Ensure(ctx, children, p.Object, &p.Object.Status.Children, p.Now, desired(p.Object, app, taken == "")...)
			}
			outcome.Err = errors.Join(err, outcome.Err)
			summarize(p, app, outcome, taken, problem)
			return outcome.Err
		},
		Hold: func(written, next platformv1.EcommercePlatformStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events: func(before, after *platformv1.EcommercePlatform) []event.Event {
			was, is := before.Status, after.Status
			return child.Events(was.Children, is.Children, was.Conditions, is.Conditions)
		},
		Warnings: []kind.Warning{datastore.UnmadeBackups},
	}, deps)
	if err != nil {
		return nil, err
	}
	return l, errors.Join(hosts.Watch(l, deps.Informers), children.Watch(l), credentials.Watch(l))
}
