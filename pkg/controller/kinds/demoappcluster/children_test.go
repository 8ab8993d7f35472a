// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/test/expect"
)

func TestAppName(t *testing.T) {
	long := strings.Repeat("x", 42)
	tests := []struct{ name, cluster, node, want string }{
		{"short", "web", "node-1", "web-node-1"},
		{"maximum length", long, "0123456789", long + "-0123456789"},
		{"one character too long", long, "01234567890", long + "-0-" + hashOf("01234567890")},
		{"cut before a dash", "web", strings.Repeat("y", 39) + "-zzzzzzzzzz", "web-" + strings.Repeat("y", 39) + "-" + hashOf(strings.Repeat("y", 39)+"-zzzzzzzzzz")},
		{"dots", "web", "ip-10-0-0-1.ec2.internal", "web-ip-10-0-0-1-ec2-internal-" + hashOf("ip-10-0-0-1.ec2.internal")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := appName(test.cluster, test.node)
			expect.Equal(t, "name", test.want, got)
			if len(got) > maxAppName || len(validation.IsDNS1035Label(got)) > 0 {
				t.Errorf("%q is not a valid name of a DemoApp", got)
			}
		})
	}
	if appName("web", "a.b") == appName("web", "a-b") {
		t.Error("two nodes share a name")
	}
}

func hashOf(node string) string { return naming.Hashed("", node, 0, hashDigits) }

func TestTemplateHash(t *testing.T) {
	template := v1alpha1.DemoAppTemplate{Spec: v1alpha1.DemoAppSpec{Message: "one", APIKey: plainKey}}
	hash := templateHash(template)
	changed := *template.DeepCopy()
	changed.Spec.Message = "two"
	if templateHash(changed) == hash {
		t.Error("another message has the same hash")
	}
	secret := *template.DeepCopy()
	secret.Spec.APIKey = "another-key"
	secret.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"password": "guess me"}`)}
	if templateHash(secret) != hash {
		t.Error("the hash depends on secrets")
	}
	expect.Equal(t, "template", plainKey, template.Spec.APIKey)
}

// TestTemplateDoesNotAdopt: permission to edit DemoAppClusters does not allow the
// adoption of releases of other owners.
func TestTemplateDoesNotAdopt(t *testing.T) {
	cluster := &v1alpha1.DemoAppCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	cluster.Spec.Template.Metadata.Annotations = map[string]v1alpha1.AnnotationValue{
		releasev1alpha1.AnnotationAdoptRelease: "true", "example.com/team": "a",
	}

	app := desiredApp(cluster, "node", "hash")

	expect.Equal(t, "annotations", map[string]string{"example.com/team": "a"}, app.Annotations)
}

func TestChangedKeyIsRolledOut(t *testing.T) {
	w := settled(t, []string{"a"})
	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.Template.Spec.APIKey = "another-secret-key" })
	w.pass()
	expect.Equal(t, "key", "another-secret-key", w.app("web-a").Spec.APIKey)
}
