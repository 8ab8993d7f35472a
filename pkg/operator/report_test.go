// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/test/expect"
)

func TestLeaderReportsItselfOnTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		report := newReport("v1.2.3", map[string]string{"redis:7": "mirror/redis:7"}, []Kind{
			{Name: "webs", Resources: []schema.GroupVersionResource{{Group: "b.io", Version: "v1", Resource: "webs"}, {Resource: "services"}}},
			{Name: "apps", Resources: []schema.GroupVersionResource{{Group: "a.io", Version: "v1", Resource: "apps"}}},
			{Name: "off"},
		})
		report.setKinds("watches", []schema.GroupKind{{Group: "cache.io", Kind: "Memcached"}, {Group: "b.io", Kind: "Bus"}})
		leader := newLeadership(leaseOptions, "one", reportingLeases{client.CoordinationV1(), report}, func(bool) {})
		stop, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)

		go func() { ended <- leader.run(stop, drains(0)) }()
		time.Sleep(time.Minute)

		lease, err := client.CoordinationV1().Leases(leaseOptions.ResourceNamespace).Get(t.Context(), leaseOptions.ResourceName, metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "report", `{"version":"v1.2.3","resources":["apps.a.io","webs.b.io"],"kinds":["Bus.b.io","Memcached.cache.io"],"images":{"redis:7":"mirror/redis:7"}}`,
			lease.Annotations[apimeta.AnnotationReport])
		report.setKinds("watches", []schema.GroupKind{{Group: "b.io", Kind: "Bus"}})
		time.Sleep(time.Minute)

		lease, err = client.CoordinationV1().Leases(leaseOptions.ResourceNamespace).Get(t.Context(), leaseOptions.ResourceName, metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Contains(t, "report after a change", lease.Annotations[apimeta.AnnotationReport], `"kinds":["Bus.b.io"]`)
		end()
		expect.NoError(t, <-ended)
	})
}
