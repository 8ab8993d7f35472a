// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"strings"
	"testing"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/mysql"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

func newServer() mysql.Server {
	return mysql.Server{
		Named:   workload.Named{Name: "shop-db", Selector: map[string]string{"component": "database"}},
		Version: "8.4", Storage: "10Gi",
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
