// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
)

// Entry exposes the frontend outside of the cluster.
type Entry struct {
	Host string
	// An empty ClassName means the default class. An empty TLSSecret means no TLS.
	ClassName, TLSSecret string
	// Retained prevents changes of an existing Ingress.
	Retained bool
}

// Ingress returns an Ingress of the frontend. Its endpoint is a URL.
func (a Application) Ingress(entry Entry) component.Component {
	n := a.named(Ingress, "")
	backend := networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
		WithName(a.Name + "-" + Frontend).WithPort(networkingv1ac.ServiceBackendPort().WithName(portName)))
	spec := networkingv1ac.IngressSpec().WithRules(networkingv1ac.IngressRule().WithHost(entry.Host).
		WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(networkingv1ac.HTTPIngressPath().
			WithPath("/").WithPathType(networkingv1.PathTypePrefix).WithBackend(backend))))
	scheme := "http"
	if entry.ClassName != "" {
		spec.WithIngressClassName(entry.ClassName)
	}
	if entry.TLSSecret != "" {
		scheme = "https"
		spec.WithTLS(networkingv1ac.IngressTLS().WithHosts(entry.Host).WithSecretName(entry.TLSSecret))
	}
	var desired child.Desired = networkingv1ac.Ingress(n.Name, "").WithLabels(n.PodLabels()).WithSpec(spec)
	if entry.Retained {
		desired = child.Retain(desired)
	}
	return component.Component{
		Name: Ingress, Field: "spec.ingress", After: []string{Database, Cache, Backend, Frontend},
		Children: []child.Desired{desired},
		Endpoint: scheme + "://" + entry.Host,
	}
}
