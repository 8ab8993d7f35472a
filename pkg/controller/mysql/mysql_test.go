// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/mysql"
	"github.com/example/demoapp-controller/pkg/controller/workload"
)

func newServer() mysql.Server {
	return mysql.Server{
		Named:   workload.Named{Name: "shop-db", Selector: map[string]string{"component": "database"}},
		Version: "8.4", Storage: "10Gi",
	}
}

func encode(t *testing.T, desired child.Desired) string {
	t.Helper()
	encoded, err := json.Marshal(desired)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// credentials returns the generated values of the Secret.
func credentials(t *testing.T, children []child.Desired) map[string]string {
	t.Helper()
	var once struct {
		Desired struct{ Data map[string][]byte }
	}
	if err := json.Unmarshal([]byte(encode(t, children[0])), &once); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for key, value := range once.Desired.Data {
		values[key] = string(value)
	}
	return values
}

func TestPasswordsStayInTheirSecret(t *testing.T) {
	children := newServer().Children()
	values := credentials(t, children)

	for _, key := range []string{mysql.KeyPassword, mysql.KeyRootPassword} {
		if len(values[key]) < 26 {
			t.Errorf("%s is short", key)
		}
		for _, desired := range children[1:] {
			text := encode(t, desired)
			if strings.Contains(text, values[key]) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(values[key]))) {
				t.Errorf("%s %s contains %s", *desired.GetKind(), *desired.GetName(), key)
			}
		}
	}
	if values[mysql.KeyPassword] == values[mysql.KeyRootPassword] {
		t.Error("both users have one password")
	}
	if again := credentials(t, newServer().Children()); again[mysql.KeyPassword] == values[mysql.KeyPassword] {
		t.Error("two servers have one password")
	}
}

func TestPodIsRestricted(t *testing.T) {
	for _, desired := range newServer().Children() {
		set, ok := desired.(*appsv1ac.StatefulSetApplyConfiguration)
		if !ok {
			continue
		}
		pod := set.Spec.Template.Spec
		security := pod.Containers[0].SecurityContext

		if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile == nil {
			t.Errorf("security context of the pod is %+v", pod.SecurityContext)
		}
		if *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.Capabilities.Drop[0] != "ALL" {
			t.Errorf("security context of the container is %+v", security)
		}
		return
	}
	t.Error("there is no StatefulSet")
}

func TestServices(t *testing.T) {
	var names []string
	for _, desired := range newServer().Children() {
		if service, ok := desired.(*corev1ac.ServiceApplyConfiguration); ok {
			names = append(names, *service.GetName())
			if headless := service.Spec.ClusterIP != nil; headless != strings.HasSuffix(*service.GetName(), "-headless") {
				t.Errorf("Service %s is headless: %t", *service.GetName(), headless)
			}
		}
	}

	if strings.Join(names, " ") != "shop-db-headless shop-db" {
		t.Errorf("Services are %q", names)
	}
}
