// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
)

// dnsPort is the port of DNS servers.
const dnsPort = 53

// Peer is one end of a connection.
type Peer struct {
	// Pods are the labels of the pods. A peer without labels is every address.
	Pods map[string]string
	// Namespaces are the labels of the namespaces of the pods. By default, the pods are in
	// the namespace of the NetworkPolicy.
	Namespaces map[string]string
	// Port is the TCP port of the pods.
	Port int32
}

// Path allows connections from the pods of one peer to the port of another peer.
type Path struct{ From, To string }

// NetworkPolicy returns the NetworkPolicy of the pods of a peer: they accept and open the
// connections of the paths, and look up names. Paths of peers that are not in the map are ignored.
func NetworkPolicy(n Named, peer string, peers map[string]Peer, paths []Path) *networkingv1ac.NetworkPolicyApplyConfiguration {
	dns := networkingv1ac.NetworkPolicyEgressRule().WithPorts(policyPort(corev1.ProtocolUDP, dnsPort), policyPort(corev1.ProtocolTCP, dnsPort))
	spec := networkingv1ac.NetworkPolicySpec().WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(peers[peer].Pods)).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).WithEgress(dns)
	for _, path := range paths {
		from, hasFrom := peers[path.From]
		to, hasTo := peers[path.To]
		if !hasFrom || !hasTo {
			continue
		}
		if path.To == peer {
			spec.WithIngress(networkingv1ac.NetworkPolicyIngressRule().WithFrom(from.selectors()...).
				WithPorts(policyPort(corev1.ProtocolTCP, to.Port)))
		}
		if path.From == peer {
			spec.WithEgress(networkingv1ac.NetworkPolicyEgressRule().WithTo(to.selectors()...).
				WithPorts(policyPort(corev1.ProtocolTCP, to.Port)))
		}
	}
	return networkingv1ac.NetworkPolicy(n.Name, "").WithLabels(n.PodLabels()).WithSpec(spec)
}

// selectors returns the peer in the form of a rule. It returns nothing for a peer without labels,
// which means every address.
func (p Peer) selectors() []*networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	if len(p.Pods) == 0 {
		return nil
	}
	peer := networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(p.Pods))
	if len(p.Namespaces) > 0 {
		peer.WithNamespaceSelector(metav1ac.LabelSelector().WithMatchLabels(p.Namespaces))
	}
	return []*networkingv1ac.NetworkPolicyPeerApplyConfiguration{peer}
}

func policyPort(protocol corev1.Protocol, number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number))
}
