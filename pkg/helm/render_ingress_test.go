// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// renderedTemplate renders one template of the embedded chart as Helm does. It returns nil for an
// empty result, because Helm omits it.
func renderedTemplate(t *testing.T, name string, values map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	desired := demo(t, values)
	parsed, err := desired.Chart.Parse()
	if err != nil {
		t.Fatal(err)
	}
	top, err := util.ToRenderValues(parsed, desired.Values, common.ReleaseOptions{Name: desired.Name, Namespace: desired.Namespace}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(parsed, top)
	if err != nil {
		return nil, err
	}
	text, ok := files["demo-app/templates/"+name]
	if !ok {
		t.Fatalf("no template %s", name)
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object, nil
}

func ingressOn(tls map[string]any) map[string]any {
	return map[string]any{"enabled": true, "host": "web.example.com", "className": "nginx", "tls": tls}
}

func TestDemoAppIngress(t *testing.T) {
	noTLS := map[string]any{"enabled": false}
	rule := networkingv1.IngressRule{Host: "web.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
			Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"},
			}},
		}}},
	}}
	tests := []struct {
		name   string
		values map[string]any
		tls    []networkingv1.IngressTLS
		notes  map[string]string
	}{
		{"plain", map[string]any{"ingress": ingressOn(noTLS)}, nil, nil},
		{
			"certificate of its own",
			map[string]any{"ingress": ingressOn(map[string]any{"enabled": true, "secretName": "cert"})},
			[]networkingv1.IngressTLS{{Hosts: []string{"web.example.com"}, SecretName: "cert"}},
			nil,
		},
		{
			"certificate of the controller",
			map[string]any{"ingress": ingressOn(map[string]any{"enabled": true, "secretName": ""})},
			[]networkingv1.IngressTLS{{Hosts: []string{"web.example.com"}}},
			nil,
		},
		{
			"annotations",
			map[string]any{"ingress": ingressOn(noTLS), "ingressAnnotations": map[string]any{"issuer": "yes\nno: \"x\""}},
			nil,
			map[string]string{"issuer": "yes\nno: \"x\""},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object, err := renderedTemplate(t, "ingress.yaml", test.values)
			if err != nil {
				t.Fatal(err)
			}
			got := typed[networkingv1.Ingress](t, object)
			want := &networkingv1.Ingress{
				TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
				ObjectMeta: metav1.ObjectMeta{
					Name: "web", Namespace: "default", Labels: got.Labels, Annotations: test.notes,
				},
				Spec: networkingv1.IngressSpec{
					IngressClassName: ptr.To("nginx"), TLS: test.tls, Rules: []networkingv1.IngressRule{rule},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Labels["app.kubernetes.io/name"] != "web" {
				t.Errorf("labels %v, ingress (-want +got):\n%s", got.Labels, diff)
			}
		})
	}
}

func TestDemoAppHTTPRoute(t *testing.T) {
	for _, namespace := range []string{"", "infra"} {
		t.Run("Gateway in "+namespace, func(t *testing.T) {
			object, err := renderedTemplate(t, "httproute.yaml", map[string]any{
				"service": map[string]any{"type": "ClusterIP", "port": 8080},
				"httpRoute": map[string]any{
					"enabled": true, "host": "*.example.com", "gateway": map[string]any{"name": "public", "namespace": namespace},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			parent := map[string]any{"name": "public"}
			if namespace != "" {
				parent["namespace"] = namespace
			}
			want := map[string]any{
				"parentRefs": []any{parent}, "hostnames": []any{"*.example.com"},
				"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": "web", "port": float64(8080)}}}},
			}
			if diff := cmp.Diff(want, object.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if object.GetAPIVersion() != "gateway.networking.k8s.io/v1" || object.GetName() != "web" || object.GetNamespace() != "default" {
				t.Errorf("it is a %s named %s/%s", object.GetAPIVersion(), object.GetNamespace(), object.GetName())
			}
		})
	}
}

// TestDemoAppIsNotExposed: unsupported objects are not rendered at all, so that the manifest stays
// the same as without them.
func TestDemoAppIsNotExposed(t *testing.T) {
	off := ingressOn(map[string]any{"enabled": true, "secretName": "cert"})
	off["enabled"] = false
	values := map[string]any{
		"ingress":   off,
		"httpRoute": map[string]any{"enabled": false, "host": "web.example.com", "gateway": map[string]any{"name": "public"}},
	}
	for _, name := range []string{"ingress.yaml", "httproute.yaml"} {
		if object, err := renderedTemplate(t, name, values); err != nil || object != nil {
			t.Errorf("%s renders %v, %v", name, object, err)
		}
	}
	before, _, err := rendered(t, demo(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := rendered(t, demo(t, values))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("manifest (-without +with):\n%s", diff)
	}
}

func TestDemoAppBadExposure(t *testing.T) {
	tests := map[string]map[string]any{
		"ingress without a class": {"ingress": map[string]any{"enabled": true, "host": "web"}},
		"ingress without a host":  {"ingress": map[string]any{"enabled": true, "className": "nginx"}},
		"unknown value":           {"ingress": map[string]any{"hosts": []any{"web"}}},
		"route without a Gateway": {"httpRoute": map[string]any{"enabled": true, "host": "web"}},
		"route without a host":    {"httpRoute": map[string]any{"enabled": true, "gateway": map[string]any{"name": "public"}}},
		"annotations as a text":   {"ingressAnnotations": "none"},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := renderedTemplate(t, "ingress.yaml", values); err == nil {
				t.Error("the schema lets it through")
			}
		})
	}
}
