// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDatabaseHasVersionAndStorage(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		database, err := w.client.DatabaseV1().PostgreSQLs("ns").Get(t.Context(), "shop-db", metav1.GetOptions{})

		expect.NoError(t, err)
		requests := workloadv1alpha1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("256Mi")}
		expect.Equal(t, "spec", databasev1.PostgreSQLSpec{
			Version: "17", Storage: "10Gi", Resources: &workloadv1alpha1.Resources{Requests: requests},
		}, database.Spec)
		expect.Equal(t, "label", "shop", database.Labels["app.example.com/stack"])
	})
}

// TestBackendHasConnectionData: passwords reach the backend from their Secret alone.
func TestBackendHasConnectionData(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		secret := func(name, key string) corev1.EnvVar {
			return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "shop-db-credentials"}, Key: key,
			}}}
		}

		got := w.deployment("shop-backend").Spec.Template.Spec.Containers[0].Env

		expect.Equal(t, "environment", []corev1.EnvVar{
			{Name: "DATABASE_TYPE", Value: "postgresql"},
			{Name: "DATABASE_HOST", Value: "shop-db"},
			{Name: "DATABASE_PORT", Value: "5432"},
			secret("DATABASE_NAME", "database"), secret("DATABASE_USER", "username"), secret("DATABASE_PASSWORD", "password"),
			{Name: "CACHE_HOST", Value: "shop-cache"},
			{Name: "CACHE_PORT", Value: "6379"},
		}, got)
	})
}

func TestFrontendHasBackend(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		got := w.deployment("shop-frontend").Spec.Template.Spec.Containers[0].Env

		expect.Equal(t, "environment", []corev1.EnvVar{{Name: "BACKEND_URL", Value: "http://shop-backend:8080"}}, got)
	})
}

// TestPortBelow1024: a process without privileges may listen on the port of the frontend, 80.
func TestPortBelow1024(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		frontend := w.deployment("shop-frontend").Spec.Template.Spec
		backend := w.deployment("shop-backend").Spec.Template.Spec

		expect.Equal(t, "sysctls of the frontend", []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
			frontend.SecurityContext.Sysctls)
		expect.Equal(t, "sysctls of the backend", []corev1.Sysctl(nil), backend.SecurityContext.Sysctls)
	})
}

func TestServicesSelectTheirPods(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		for name, port := range map[string]int32{"cache": 6379, "backend": 8080, "frontend": 80} {
			service, err := w.kube.CoreV1().Services("ns").Get(t.Context(), "shop-"+name, metav1.GetOptions{})
			expect.NoError(t, err)

			expect.Equal(t, "selector", map[string]string{"app.example.com/stack": "shop", "app.example.com/component": name}, service.Spec.Selector)
			expect.Equal(t, "port", port, service.Spec.Ports[0].Port)
			expect.Equal(t, "labels of the pods", service.Spec.Selector, w.deployment("shop-"+name).Spec.Template.Labels)
		}
	})
}
