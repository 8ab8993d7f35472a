// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	webappclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/webapp/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Name is the controller's name in logs and metrics.
const Name = "website"

// Kind is the kind of the owners of the children.
var Kind = webappv1.SchemeGroupVersion.WithKind("Website")

type (
	pass = kind.Pass[*webappv1.Website]
	loop = kind.Loop[*webappv1.Website, webappv1.WebsiteStatus]
)

// New wires the controller of Websites and of their children. It starts nothing. domain is for the
// URL in the status.
func New(client webappclient.WebsitesGetter, children *child.Set, pull images.Table, domain naming.Domain, deps kind.Deps) (*loop, error) {
	l, err := kind.New(kind.Definition[*webappv1.Website, webappv1.WebsiteStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client:     func(namespace string) controller.Patcher[*webappv1.Website] { return client.Websites(namespace) },
		Status:     func(w *webappv1.Website) *webappv1.WebsiteStatus { return &w.Status },
		Conditions: func(s *webappv1.WebsiteStatus) *[]metav1.Condition { return &s.Conditions },
		Steps: func(ctx context.Context, p *pass) error {
			state, err := children.Ensure(ctx, p.Object, &p.Object.Status.Children, p.Now, Desired(p.Object, pull)...)
			summarize(p, state, domain, err)
			return err
		},
		Hold: func(written, next webappv1.WebsiteStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events: transitions,
	}, deps)
	if err != nil {
		return nil, err
	}
	return l, children.Watch(l)
}
