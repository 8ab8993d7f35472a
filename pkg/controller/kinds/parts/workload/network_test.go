// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

func TestNetworkPolicyAllowsOnlyItsPaths(t *testing.T) {
	peers := map[string]workload.Peer{
		"anywhere": {},
		"web":      {Pods: map[string]string{"component": "web"}, Port: 8080},
		"database": {Pods: map[string]string{"component": "database"}, Port: 5432},
		"scraper":  {Pods: map[string]string{"app": "scraper"}, Namespaces: map[string]string{"name": "monitoring"}},
	}
	paths := []workload.Path{
		{From: "anywhere", To: "web"}, {From: "scraper", To: "web"}, {From: "web", To: "database"}, {From: "web", To: "cache"},
	}

	got := workload.NetworkPolicy(workload.Named{Name: "shop-web"}, "web", peers, paths)

	port := func(protocol corev1.Protocol, number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
		return networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number))
	}
	pods := func(key, value string) *metav1ac.LabelSelectorApplyConfiguration {
		return metav1ac.LabelSelector().WithMatchLabels(map[string]string{key: value})
	}
	want := networkingv1ac.NetworkPolicySpec().WithPodSelector(pods("component", "web")).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
		WithIngress(
			networkingv1ac.NetworkPolicyIngressRule().WithPorts(port(corev1.ProtocolTCP, 8080)),
			networkingv1ac.NetworkPolicyIngressRule().WithPorts(port(corev1.ProtocolTCP, 8080)).
				WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(pods("app", "scraper")).WithNamespaceSelector(pods("name", "monitoring"))),
		).
		WithEgress(
			networkingv1ac.NetworkPolicyEgressRule().WithPorts(port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53)),
			networkingv1ac.NetworkPolicyEgressRule().WithPorts(port(corev1.ProtocolTCP, 5432)).
				WithTo(networkingv1ac.NetworkPolicyPeer().WithPodSelector(pods("component", "database"))),
		)
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("NetworkPolicy (-want +got):\n%s", diff)
	}
}

func TestSpreadOverZonesAndNodes(t *testing.T) {
	pod := workload.Pod(0)

	workload.Spread(workload.Named{Selector: map[string]string{"component": "web"}}, pod)

	var keys []string
	for _, constraint := range pod.TopologySpreadConstraints {
		keys = append(keys, *constraint.TopologyKey)
	}
	if diff := cmp.Diff([]string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}, keys); diff != "" {
		t.Errorf("topology keys (-want +got):\n%s", diff)
	}
}

func TestDisruptionBudgetSelectsPods(t *testing.T) {
	named := workload.Named{Name: "shop-web", Selector: map[string]string{"component": "web"}}

	got := workload.DisruptionBudget(named)

	if diff := cmp.Diff(named.Selector, got.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
}
