// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/crds/demo.example.com_demoapps.yaml"

func TestDemoAppDefaults(t *testing.T) {
	const image, message = "nginx:1.27-alpine", "Hello from the hybrid operator"
	one, three := int32(1), int32(3)
	defaultService := v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeClusterIP, Port: 80}
	tests := []struct {
		name string
		spec string
		want v1alpha1.DemoAppSpec
	}{
		{
			name: "required fields only",
			spec: `{apiKey: verysecret}`,
			want: v1alpha1.DemoAppSpec{ReplicaCount: &one, Image: image, Message: message, APIKey: "verysecret", Service: defaultService},
		},
		{
			name: "explicit nulls",
			spec: `{apiKey: verysecret, replicaCount: null, image: null, message: null, service: null, waitFor: null, apiKeyFrom: null}`,
			want: v1alpha1.DemoAppSpec{ReplicaCount: &one, Image: image, Message: message, APIKey: "verysecret", Service: defaultService},
		},
		{
			name: "service with a port only",
			spec: `{apiKey: verysecret, service: {port: 8080}}`,
			want: v1alpha1.DemoAppSpec{ReplicaCount: &one, Image: image, Message: message, APIKey: "verysecret", Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeClusterIP, Port: 8080}},
		},
		{
			name: "service with a type only",
			spec: `{apiKey: verysecret, service: {type: NodePort}}`,
			want: v1alpha1.DemoAppSpec{ReplicaCount: &one, Image: image, Message: message, APIKey: "verysecret", Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeNodePort, Port: 80}},
		},
		{
			name: "all fields set",
			spec: `{apiKeyFrom: {name: s, key: k}, replicaCount: 3, image: a, message: m, waitFor: b, service: {type: LoadBalancer, port: 443}}`,
			want: v1alpha1.DemoAppSpec{
				ReplicaCount: &three, Image: "a", Message: "m", WaitFor: "b",
				APIKeyFrom: &releasev1alpha1.SecretKeyReference{Name: "s", Key: "k"},
				Service:    v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeLoadBalancer, Port: 443},
			},
		},
	}
	definition := crd.Load(t, file)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := definition.Object(t, "web", test.spec)
			if errs := definition.Admit(t, object); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			var got v1alpha1.DemoApp
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]any{"observedGeneration": int64(-1)}, object["status"]); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDemoAppAccepted(t *testing.T) {
	tests := []struct{ name, object, spec string }{
		{"smallest name", "a", `{apiKey: verysecret}`},
		{"longest name", strings.Repeat("a", 53), `{apiKey: verysecret}`},
		{"name with dash and digit", "app-2", `{apiKey: verysecret}`},
		{"key from a Secret", "web", `{apiKeyFrom: {name: my.secret-1, key: _API-key.1}}`},
		{"shortest key", "web", `{apiKey: "12345678"}`},
		{"zero replicas", "web", `{apiKey: verysecret, replicaCount: 0}`},
		{"maximum replicas", "web", `{apiKey: verysecret, replicaCount: 100}`},
		{"highest port", "web", `{apiKey: verysecret, service: {port: 65535}}`},
		{"message with several lines and non-Latin text", "web", `{apiKey: verysecret, message: "<b>Grüße</b>\n今日は 🎉"}`},
		{"ingress with a class", "web", `{apiKey: verysecret, ingress: {host: web.example.com, className: nginx}}`},
		{"ingress with a class and TLS", "web", `{apiKey: verysecret, ingress: {host: web.example.com, className: nginx, tls: {secretName: cert}}}`},
		{"ingress with the default certificate", "web", `{apiKey: verysecret, ingress: {host: web.example.com, className: nginx, tls: {}}}`},
		{"ingress with a Gateway of another namespace", "web", `{apiKey: verysecret, ingress: {host: a-1.b2.example.com, gateway: {name: public, namespace: infra}}}`},
		{"ingress with a wildcard host", "web", `{apiKey: verysecret, ingress: {host: "*.example.com", className: nginx, gateway: {name: public}}}`},
		{"waits for another DemoApp", "web", `{apiKey: verysecret, waitFor: app-a}`},
		{"image without a tag", "web", `{apiKey: verysecret, image: nginx}`},
		{"image with a registry and port", "web", `{apiKey: verysecret, image: "registry.example.com:5000/team/my_web__x/a.b-c:v1.2_3"}`},
		{"image from a host without dots", "web", `{apiKey: verysecret, image: "localhost:5000/web"}`},
		{"image from an IPv6 host", "web", `{apiKey: verysecret, image: "[fd00::1]:5000/web:v1"}`},
		{"image with a digest", "web", `{apiKey: verysecret, image: "nginx@sha256:` + strings.Repeat("0f", 32) + `"}`},
		{"image with a tag and a digest", "web", `{apiKey: verysecret, image: "nginx:1@sha256:` + strings.Repeat("0f", 32) + `"}`},
	}
	definition := crd.Load(t, file)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if errs := definition.Admit(t, definition.Object(t, test.object, test.spec)); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func TestDemoAppRefused(t *testing.T) {
	tests := []struct{ name, object, spec, field, message string }{
		{"no spec", "web", `null`, "spec", "Required value"},
		{"empty spec", "web", `{}`, "spec.apiKey", "apiKey or apiKeyFrom is required"},
		{"both keys", "web", `{apiKey: verysecret, apiKeyFrom: {name: s, key: k}}`, "spec.apiKeyFrom", "must not be set together with apiKey"},
		{"key too short", "web", `{apiKey: short}`, "spec.apiKey", "at least 8"},
		{"key too long", "web", `{apiKey: ` + strings.Repeat("k", 1025) + `}`, "spec.apiKey", "1024"},
		{"key is a number", "web", `{apiKey: 12345678}`, "spec.apiKey", "must be of type string"},
		{"Secret without a name", "web", `{apiKeyFrom: {key: k}}`, "spec.apiKeyFrom.name", "Required value"},
		{"Secret without a key", "web", `{apiKeyFrom: {name: s}}`, "spec.apiKeyFrom.key", "Required value"},
		{"invalid name of a Secret", "web", `{apiKeyFrom: {name: My_Secret, key: k}}`, "spec.apiKeyFrom.name", "must be the name of a Secret"},
		{"invalid key of a Secret", "web", `{apiKeyFrom: {name: s, key: "a/b"}}`, "spec.apiKeyFrom.key", "must be a key of the Secret"},
		{"too few replicas", "web", `{apiKey: verysecret, replicaCount: -1}`, "spec.replicaCount", "greater than or equal to 0"},
		{"too many replicas", "web", `{apiKey: verysecret, replicaCount: 101}`, "spec.replicaCount", "less than or equal to 100"},
		{"replicas as text", "web", `{apiKey: verysecret, replicaCount: many}`, "spec.replicaCount", "must be of type integer"},
		{"empty image", "web", `{apiKey: verysecret, image: ""}`, "spec.image", "at least 1"},
		{"image with a space", "web", `{apiKey: verysecret, image: "nginx latest"}`, "spec.image", ": must be an image reference"},
		{"image with a leading space", "web", `{apiKey: verysecret, image: " nginx"}`, "spec.image", ": must be an image reference"},
		{"image with a trailing newline", "web", `{apiKey: verysecret, image: "nginx\n"}`, "spec.image", ": must be an image reference"},
		{"image with an empty tag", "web", `{apiKey: verysecret, image: "nginx:"}`, "spec.image", ": must be an image reference"},
		{"image in upper case", "web", `{apiKey: verysecret, image: "Nginx"}`, "spec.image", ": must be an image reference"},
		{"image with a short digest", "web", `{apiKey: verysecret, image: "nginx@sha256:0f"}`, "spec.image", ": must be an image reference"},
		{"image with a scheme", "web", `{apiKey: verysecret, image: "https://example.com/nginx"}`, "spec.image", ": must be an image reference"},
		{"image too long", "web", `{apiKey: verysecret, image: ` + strings.Repeat("i", 513) + `}`, "spec.image", "512"},
		{"empty message", "web", `{apiKey: verysecret, message: ""}`, "spec.message", "at least 1"},
		{"message too long", "web", `{apiKey: verysecret, message: ` + strings.Repeat("m", 4097) + `}`, "spec.message", "4096"},
		{"unknown Service type", "web", `{apiKey: verysecret, service: {type: ExternalName}}`, "spec.service.type", "Unsupported value"},
		{"port 0", "web", `{apiKey: verysecret, service: {port: 0}}`, "spec.service.port", "greater than or equal to 1"},
		{"port too high", "web", `{apiKey: verysecret, service: {port: 65536}}`, "spec.service.port", "less than or equal to 65535"},
		{"ingress without class and Gateway", "web", `{apiKey: verysecret, ingress: {host: web.example.com}}`, "spec.ingress", "className or gateway is required"},
		{"ingress without a host", "web", `{apiKey: verysecret, ingress: {className: nginx}}`, "spec.ingress.host", "Required value"},
		{"host in upper case", "web", `{apiKey: verysecret, ingress: {host: Web.example.com, className: nginx}}`, "spec.ingress.host", "must be a DNS name in lower case, such as shop.example.com or *.example.com"},
		{"host is a URL", "web", `{apiKey: verysecret, ingress: {host: "https://web", className: nginx}}`, "spec.ingress.host", "must be a DNS name in lower case, such as shop.example.com or *.example.com"},
		{"host with a port", "web", `{apiKey: verysecret, ingress: {host: "web:80", className: nginx}}`, "spec.ingress.host", "must be a DNS name in lower case, such as shop.example.com or *.example.com"},
		{"host with an inner wildcard", "web", `{apiKey: verysecret, ingress: {host: "a.*.com", className: nginx}}`, "spec.ingress.host", "must be a DNS name in lower case, such as shop.example.com or *.example.com"},
		{"host is only a wildcard", "web", `{apiKey: verysecret, ingress: {host: "*", className: nginx}}`, "spec.ingress.host", "must be a DNS name in lower case, such as shop.example.com or *.example.com"},
		{"host is an IP address", "web", `{apiKey: verysecret, ingress: {host: 10.0.0.1, className: nginx}}`, "spec.ingress.host", "not an IP address"},
		{"host too long", "web", `{apiKey: verysecret, ingress: {host: ` + strings.Repeat("a", 254) + `, className: nginx}}`, "spec.ingress.host", "253"},
		{"invalid name of a class", "web", `{apiKey: verysecret, ingress: {host: web, className: Nginx_1}}`, "spec.ingress.className", "must be the name of an IngressClass"},
		{"Gateway without a name", "web", `{apiKey: verysecret, ingress: {host: web, gateway: {namespace: infra}}}`, "spec.ingress.gateway.name", "Required value"},
		{"waits for itself", "web", `{apiKey: verysecret, waitFor: web}`, "spec.waitFor", "must name another DemoApp"},
		{"invalid waitFor", "web", `{apiKey: verysecret, waitFor: App_A}`, "spec.waitFor", "must be the name of a DemoApp"},
		{"invalid name of a node", "web", `{apiKey: verysecret, nodeName: Node_1}`, "spec.nodeName", "must be the name of a node"},
		{"invalid name of a Gateway", "web", `{apiKey: verysecret, ingress: {host: web, gateway: {name: A/B}}}`, "spec.ingress.gateway.name", "must be the name of a Gateway"},
		{"invalid namespace of a Gateway", "web", `{apiKey: verysecret, ingress: {host: web, gateway: {name: a, namespace: a.b}}}`, "spec.ingress.gateway.namespace", "must be the name of a namespace"},
		{"invalid Secret of TLS", "web", `{apiKey: verysecret, ingress: {host: web, className: nginx, tls: {secretName: a/b}}}`, "spec.ingress.tls.secretName", "must be the name of a Secret"},
		{"timeout without a unit", "web", `{apiKey: verysecret, timeout: "90"}`, "spec.timeout", "must be a duration from 1s to 24h, such as 90s or 1h30m"},
		{"timeout too long", "web", `{apiKey: verysecret, timeout: 25h}`, "spec.timeout", "must be a duration from 1s to 24h"},
		{"window in words", "web", `{apiKey: verysecret, upgradeWindow: {schedule: at night, duration: 1h}}`, "spec.upgradeWindow.schedule", "must be the five fields of cron, such as 0 2 * * *"},
		{"window of milliseconds", "web", `{apiKey: verysecret, upgradeWindow: {schedule: "@daily", duration: 90ms}}`, "spec.upgradeWindow.duration", "must be a duration from 1m to 168h, such as 90m or 8h"},
		{"time zone with a space", "web", `{apiKey: verysecret, upgradeWindow: {schedule: "@daily", duration: 1h, timeZone: "New York"}}`, "spec.upgradeWindow.timeZone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{"values of an invalid name", "web", `{apiKey: verysecret, valuesFrom: [{kind: Secret, name: My_Secret}]}`, "spec.valuesFrom[0].name", "must be the name of a ConfigMap or Secret"},
		{"values of an invalid key", "web", `{apiKey: verysecret, valuesFrom: [{kind: Secret, name: s, key: a/b}]}`, "spec.valuesFrom[0].key", "must be a key of a ConfigMap or Secret"},
		{"waitFor too long", "web", `{apiKey: verysecret, waitFor: ` + strings.Repeat("a", 54) + `}`, "spec.waitFor", "53"},
		{"name too long", strings.Repeat("a", 54), `{apiKey: verysecret}`, "metadata", "metadata.name must have at most 53 characters"},
		{"name with a dot", "web.example", `{apiKey: verysecret}`, "metadata", "metadata.name must be a DNS-1035 label"},
		{"name beginning with a digit", "1web", `{apiKey: verysecret}`, "metadata", "metadata.name must be a DNS-1035 label"},
	}
	definition := crd.Load(t, file)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := definition.Admit(t, definition.Object(t, test.object, test.spec))
			if !slices.ContainsFunc(errs, func(err *field.Error) bool {
				return err.Field == test.field && strings.Contains(err.Error(), test.message)
			}) {
				t.Errorf("got %v, want an error of field %q containing %q", errs, test.field, test.message)
			}
		})
	}
}

// TestIgnoredPaths: a path is refused if it would make every repair fail, or hide the
// object from the operator. The message says what to do.
func TestIgnoredPaths(t *testing.T) {
	const (
		kind     = "apiVersion and kind cannot be ignored"
		metadata = "in the metadata, only single labels and annotations can be ignored"
		identity = "cannot be ignored: the operator identifies its objects by them"
	)
	tests := map[string]string{
		"/spec":                          "",
		"/spec/replicas":                 "",
		"/spec/template/metadata/labels": "",
		"/spec/template/spec/containers/0/resources": "",
		"/data":                 "",
		"/data/a~1b":            "",
		"/kindOfData":           "",
		"/metadatas/name":       "",
		"/metadata/labels/team": "",
		"/metadata/labels/app.kubernetes.io~1managed-by-us": "",
		"/metadata/annotations/example.com~1checksum":       "",
		"/metadata/annotations/meta.helm.sh~1release-names": "",
		"/apiVersion":                 kind,
		"/kind":                       kind,
		"/kind/x":                     kind,
		"/metadata":                   metadata,
		"/metadata/name":              metadata,
		"/metadata/name/x":            metadata,
		"/metadata/namespace":         metadata,
		"/metadata/uid":               metadata,
		"/metadata/resourceVersion":   metadata,
		"/metadata/generation":        metadata,
		"/metadata/creationTimestamp": metadata,
		"/metadata/deletionTimestamp": metadata,
		"/metadata/managedFields":     metadata,
		"/metadata/managedFields/0":   metadata,
		"/metadata/ownerReferences":   metadata,
		"/metadata/ownerReferences/0": metadata,
		"/metadata/finalizers":        metadata,
		"/metadata/labels":            metadata,
		"/metadata/annotations":       metadata,
		"/metadata/labels/app.kubernetes.io~1managed-by":        identity,
		"/metadata/labels/app.kubernetes.io~1managed-by/x":      identity,
		"/metadata/annotations/meta.helm.sh~1release-name":      identity,
		"/metadata/annotations/meta.helm.sh~1release-namespace": identity,
		"/":                 "should be at least 2 chars long",
		"":                  "should be at least 2 chars long",
		"/metadata/labels/": "must be a JSON pointer",
		"spec/replicas":     "must be a JSON pointer",
		"/spec/~2":          "must be a JSON pointer",
	}
	definition := crd.Load(t, file)
	for path, message := range tests {
		t.Run(path, func(t *testing.T) {
			object := definition.Object(t, "web", `{apiKey: verysecret, drift: {ignore: [{kind: Deployment, paths: [/spec/replicas, "`+path+`"]}]}}`)
			errs := definition.Admit(t, object)
			if message == "" {
				if len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != "spec.drift.ignore[0].paths[1]" || !strings.Contains(errs[0].Error(), message) {
				t.Errorf("got %v, want an error of spec.drift.ignore[0].paths[1] containing %q", errs, message)
			}
		})
	}
}

// FuzzIgnoredPaths: no admitted path reaches the fields by which the operator identifies
// an object, in whatever form the path is written.
func FuzzIgnoredPaths(f *testing.F) {
	for _, seed := range []string{
		"/spec/replicas", "/metadata", "/metadata/labels/a", "/metadata~1labels", "/metadata//labels", "/metadata/labels/app.kubernetes.io~1managed-by",
		"/~0metadata", "/metadata/labels", "/metadata\n", "/kind", "/apiVersion/", "/metadata/annotations/meta.helm.sh~1release-name/0",
	} {
		f.Add(seed)
	}
	definition := crd.Load(f, file)
	f.Fuzz(func(t *testing.T, path string) {
		object := definition.Object(t, "web", `{apiKey: verysecret}`)
		object["spec"].(map[string]any)["drift"] = map[string]any{
			"ignore": []any{map[string]any{"kind": "Deployment", "paths": []any{path}}},
		}
		if errs := definition.Admit(t, object); len(errs) > 0 {
			return
		}
		tokens := strings.Split(path, "/")[1:]
		for i, token := range tokens {
			tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		}
		switch tokens[0] {
		case "apiVersion", "kind":
			t.Errorf("%q was admitted", path)
		case "metadata":
			marks := []string{"app.kubernetes.io/managed-by", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"}
			single := len(tokens) > 2 && (tokens[1] == "labels" || tokens[1] == "annotations")
			if !single || slices.Contains(marks, tokens[2]) && (tokens[1] == "labels") == (tokens[2] == marks[0]) {
				t.Errorf("%q was admitted", path)
			}
		}
	})
}
