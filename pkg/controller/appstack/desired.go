// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack

import (
	"fmt"
	"strconv"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/component"
	"github.com/example/demoapp-controller/pkg/controller/workload"
	databasev1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/database/v1"
)

// Names of the components.
const (
	databaseName = "database"
	cacheName    = "cache"
	backendName  = "backend"
	frontendName = "frontend"
)

const (
	databasePort = 5432
	// cachePort is where the cache listens, and cacheUser is the user that it runs as.
	cachePort, cacheUser = 6379, 999
	// firstUnprivilegedPort is the first port that a process without privileges may listen on.
	firstUnprivilegedPort = 1024
	// portName is the name of the port of each container and Service.
	portName = "main"
	// imageAdvice says what the pods of an image need to start.
	imageAdvice = "check %s.image, which must exist, be allowed, have a numeric user other than root, and listen on port %d"
)

// components returns the components of an AppStack in the order of their start.
func components(stack *appv1.AppStack) []component.Component {
	parts := []component.Component{database(stack)}
	if hasCache(stack) {
		parts = append(parts, cache(stack))
	}
	return append(parts, backend(stack), frontend(stack))
}

func hasCache(stack *appv1.AppStack) bool { return ptr.Deref(stack.Spec.Cache.Enabled, true) }

func database(stack *appv1.AppStack) component.Component {
	n := named(stack, databaseName)
	n.Name = databaseOf(stack)
	return component.Component{
		Name: databaseName, Field: "spec.database", Endpoint: endpoint(stack, n.Name, databasePort),
		Children: []child.Desired{databasev1ac.PostgreSQL(n.Name, "").WithLabels(n.PodLabels()).WithSpec(databasev1ac.PostgreSQLSpec().
			WithVersion(stack.Spec.Database.Version).WithStorage(stack.Spec.Database.Storage))},
		Advice: "change spec.database of the AppStack, which sets spec.version and spec.storage",
	}
}

func cache(stack *appv1.AppStack) component.Component {
	given := stack.Spec.Cache
	container := workload.Container(cacheName, given.Image)
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	pod := workload.Pod(cacheUser, container.WithVolumeMounts(corev1ac.VolumeMount().WithName("data").WithMountPath("/data"))).
		WithVolumes(corev1ac.Volume().WithName("data").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	return deployed(stack, cacheName, given.Replicas, cachePort, pod)
}

// backend reaches the database with the credentials of the PostgreSQL. The kubelet reads them
// from their Secret, so the operator does not.
func backend(stack *appv1.AppStack) component.Component {
	given := stack.Spec.Backend
	container := workload.Container(backendName, given.Image).WithEnv(
		variable("DATABASE_HOST", databaseOf(stack)), variable("DATABASE_PORT", strconv.Itoa(databasePort)),
		credential(stack, "DATABASE_NAME", databasev1.KeyDatabase), credential(stack, "DATABASE_USER", databasev1.KeyUsername),
		credential(stack, "DATABASE_PASSWORD", databasev1.KeyPassword))
	if hasCache(stack) {
		container.WithEnv(variable("CACHE_HOST", named(stack, cacheName).Name), variable("CACHE_PORT", strconv.Itoa(cachePort)))
	}
	return deployed(stack, backendName, given.Replicas, given.Port, workload.Pod(0, container))
}

func frontend(stack *appv1.AppStack) component.Component {
	given := stack.Spec.Frontend
	url := fmt.Sprintf("http://%s:%d", named(stack, backendName).Name, stack.Spec.Backend.Port)
	container := workload.Container(frontendName, given.Image).WithEnv(variable("BACKEND_URL", url))
	return deployed(stack, frontendName, given.Replicas, given.Port, workload.Pod(0, container))
}

// deployed returns a component that is a Deployment with a Service. The pod has one container.
func deployed(
	stack *appv1.AppStack, name string, replicas *int32, port int32, pod *corev1ac.PodSpecApplyConfiguration,
) component.Component {
	n, field := named(stack, name), "spec."+name
	pod.Containers[0].WithPorts(workload.Port(portName, port)).WithReadinessProbe(workload.TCPProbe(portName))
	if port < firstUnprivilegedPort {
		pod.SecurityContext.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
	return component.Component{
		Name: name, Field: field, Endpoint: endpoint(stack, n.Name, port), Advice: fmt.Sprintf(imageAdvice, field, port),
		Children: []child.Desired{workload.Deployment(n, ptr.Deref(replicas, 1), pod), workload.Service(n, portName, port)},
	}
}

// named returns the name and labels of the children of a component.
func named(stack *appv1.AppStack, name string) workload.Named {
	return workload.Named{
		Name:     stack.Name + "-" + name,
		Selector: map[string]string{appv1.LabelStack: stack.Name, appv1.LabelComponent: name},
	}
}

// databaseOf returns the name of the PostgreSQL, which is also that of the Service of its primary.
func databaseOf(stack *appv1.AppStack) string { return stack.Name + "-db" }

// endpoint returns where a Service is reached within the cluster, as host:port.
func endpoint(stack *appv1.AppStack, service string, port int32) string {
	return fmt.Sprintf("%s.%s.svc.cluster.local:%d", service, stack.Namespace, port)
}

func variable(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

// credential returns a variable with a value of the Secret of the PostgreSQL.
func credential(stack *appv1.AppStack, name, key string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().WithSecretKeyRef(
		corev1ac.SecretKeySelector().WithName(databaseOf(stack) + "-credentials").WithKey(key)))
}
