// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	webappclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/webapp/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// site is a namespace for the Website "web".
type site struct {
	*plain[*webappv1.Website]
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{newPlain[*webappv1.Website](t, "web", func(client *versioned.Clientset, namespace string) webappclient.WebsiteInterface {
		return client.WebappV1().Websites(namespace)
	}, "website")}
}

func (s *site) create() *webappv1.Website {
	s.t.Helper()
	return s.add(&webappv1.Website{Spec: webappv1.WebsiteSpec{HTML: "<h1>one</h1>"}})
}

// scale does what "kubectl scale" does.
func (s *site) scale(replicas int) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	err := s.client.WebappV1().RESTClient().Patch(types.MergePatchType).Namespace(s.namespace).Resource("websites").Name("web").SubResource("scale").
		Body(patch).Do(s.t.Context()).Error()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) page() *corev1.ConfigMap {
	s.t.Helper()
	return s.configMap("web")
}

// TestWebsiteLife follows a Website from its creation to its deletion, and counts the requests.
func TestWebsiteLife(t *testing.T) {
	t.Parallel()
	s := newSite(t)

	begin := time.Now()
	s.create()
	web := s.awaitReady()
	created := s.settle(begin)
	assertStatusWrites(t, created, "websites", 2, begin)
	if want := map[string]int{"patch configmaps": 1, "patch deployments": 1, "patch services": 1, "create events": 2}; !maps.Equal(created, want) {
		t.Errorf("requests of the creation, without status, are %v, want %v", created, want)
	}
	if web.Status.ReadyReplicas != 1 || web.Status.URL != "http://web."+s.namespace+".svc.cluster.local" {
		t.Errorf("status is %+v", web.Status)
	}

	begin = time.Now()
	s.scale(2)
	if scaled := s.awaitReady(); scaled.Status.ReadyReplicas != 2 {
		t.Errorf("status after the scaling is %+v", scaled.Status)
	}
	if requests := s.settle(begin); requests["patch deployments"] != 1 || requests["patch configmaps"]+requests["patch services"] > 0 {
		t.Errorf("requests of the scaling are %v", requests)
	}

	s.remove()
	cluster.Eventually(t.Context(), t, "the children are gone", func(ctx context.Context) (bool, error) {
		_, err1 := shared.Client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		_, err2 := shared.Client.AppsV1().Deployments(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		_, err3 := shared.Client.CoreV1().Services(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		return !slices.ContainsFunc([]error{err1, err2, err3}, func(err error) bool { return !apierrors.IsNotFound(err) }), nil
	})
}

// TestWebsiteServiceWithAnotherPort: a forced apply alone cannot undo what "kubectl edit" does to a
// port.
func TestWebsiteServiceWithAnotherPort(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create()
	s.awaitReady()
	services := shared.Client.CoreV1().Services(s.namespace)

	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		service, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		service.Spec.Ports[0].Port = 8080
		_, err = services.Update(t.Context(), service, metav1.UpdateOptions{FieldManager: "theirs"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	cluster.Eventually(t.Context(), t, "the port is restored", func(ctx context.Context) (bool, error) {
		service, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return len(service.Spec.Ports) == 1 && service.Spec.Ports[0].Port == 80, nil
	})
}

// TestWebsiteCreatedAgainAtOnce: the children of the deleted Website are garbage collected, and the
// new one makes its own.
func TestWebsiteCreatedAgainAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create()
	s.awaitReady()

	err := s.objects.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err != nil {
		t.Fatal(err)
	}
	again := s.create()

	s.awaitReady()
	s.settle(time.Now())
	if page := s.page(); !metav1.IsControlledBy(page, again) {
		t.Errorf("the page belongs to %+v, want %s", page.OwnerReferences, again.UID)
	}
}
