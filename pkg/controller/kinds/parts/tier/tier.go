// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"slices"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/images"
)

// Names of the components.
const (
	Database   = "database"
	Cache      = "cache"
	Backend    = "backend"
	Frontend   = "frontend"
	Monitoring = "monitoring"
	Ingress    = "ingress"
	Backup     = "backup"
)

const (
	// HTTPPort is the default port of a backend and a frontend, except for webServers, whose port is webPort.
	HTTPPort, webPort = 8080, 80
	// CachePort is the port of a cache.
	CachePort = 6379
	// cacheUser is the user of a cache.
	cacheUser = 999
	// portName is the name of the port of each container except databases, and of its Service.
	portName = "main"
)

// webServers are official images of Docker Hub that listen on webPort.
var webServers = []string{"docker.io/library/caddy", "docker.io/library/httpd", "docker.io/library/nginx"}

// DefaultPort returns the port on which a backend or a frontend listens whose port is not given.
func DefaultPort(image string) int32 {
	named, err := reference.ParseNormalizedNamed(image)
	if err == nil && slices.Contains(webServers, named.Name()) {
		return webPort
	}
	return HTTPPort
}

// Application is an application with components. The names of its children begin with its name.
type Application struct {
	Namespace, Name string
	// Labels returns the labels of the children of a component, which also select its pods.
	Labels   func(component string) map[string]string
	Database Server
	// Cache is nil if the application has no cache.
	Cache             *Workload
	Backend, Frontend Workload
	// Images say where the images that no field names are pulled from.
	Images images.Table
	// Domain is the DNS domain in the endpoints.
	Domain naming.Domain
	// Monitored means that Prometheus scrapes the backend. See [Application.Monitoring].
	Monitored bool
	// Hardened adds limits, topology spread, PodDisruptionBudgets and NetworkPolicies.
	Hardened bool
	// Restricted says that the pods of backend and frontend must meet the restricted Pod Security profile. The
	// pods of a hardened application always do. See [workload.Profiled].
	Restricted bool
}

// Workload is a Deployment with a Service.
type Workload struct {
	Image string
	// Args are the arguments of the container. nil means the arguments of the image.
	Args     []string
	Replicas int32
	// Port is the port of the container.
	Port int32
	// Resources replace the default resources. Optional.
	Resources *workloadv1alpha1.Resources
	// User is the user of the container. Optional.
	User *workloadv1alpha1.UserContext
}

// defaultResources are the resources of a container, unless given. Requests keep a pod out of the
// QoS class BestEffort, whose pods are evicted first. Only hardened applications have limits.
type defaultResources struct{ requests, hardenedRequests, hardenedLimits workloadv1alpha1.ResourceList }

var (
	componentResources = defaultResources{quantities("25m", "64Mi"), quantities("100m", "256Mi"), quantities("1", "512Mi")}
	databaseResources  = defaultResources{quantities("100m", "256Mi"), quantities("500m", "1Gi"), quantities("2", "2Gi")}
)

func quantities(cpu, memory string) workloadv1alpha1.ResourceList {
	return workloadv1alpha1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// resources returns the given resources, or the default ones.
func (a Application) resources(given *workloadv1alpha1.Resources, defaults defaultResources) *workloadv1alpha1.Resources {
	switch {
	case given != nil:
		return given
	case a.Hardened:
		return &workloadv1alpha1.Resources{Requests: defaults.hardenedRequests, Limits: defaults.hardenedLimits}
	default:
		return &workloadv1alpha1.Resources{Requests: defaults.requests}
	}
}

// BoundedCache returns a cache that keeps nothing on disk, and drops the least used items when it
// is full.
func BoundedCache(resources *workloadv1alpha1.Resources) *Workload {
	return &Workload{
		Image: images.Redis, Replicas: 1, Port: CachePort, Resources: resources,
		Args: []string{"--save", "", "--appendonly", "no", "--maxmemory", "192mb", "--maxmemory-policy", "allkeys-lru"},
	}
}

// Tiers returns the database, the cache, the backend and the frontend, in the order of their
// start.
func (a Application) Tiers() []component.Component {
	tiers := []component.Component{a.database()}
	if a.Cache != nil {
		tiers = append(tiers, a.cache(*a.Cache))
	}
	return append(tiers, a.backend(), a.frontend())
}

func (a Application) named(component, suffix string) workload.Named {
	return workload.Named{Name: a.Name + suffix, Selector: a.Labels(component)}
}

// endpoint returns the address of a Service, as host:port.
func (a Application) endpoint(service string, port int32) string {
	return fmt.Sprintf("%s:%d", a.Domain.Host(service, a.Namespace), port)
}

// cache returns the cache, whose directory is lost with its pod.
func (a Application) cache(w Workload) component.Component {
	container := workload.Container(Cache, a.Images.Of(w.Image)).WithVolumeMounts(corev1ac.VolumeMount().WithName("data").WithMountPath("/data"))
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	pod := a.pod(Cache, w, cacheUser, container).
		WithVolumes(corev1ac.Volume().WithName("data").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	return a.deployed(Cache, w, workload.Deployment(a.named(Cache, "-"+Cache), w.Replicas, pod))
}

func (a Application) backend() component.Component {
	env := a.databaseEnv()
	if a.Cache != nil {
		env = append(env, workload.Value("CACHE_HOST", a.Name+"-"+Cache), workload.Value("CACHE_PORT", fmt.Sprint(a.Cache.Port)))
	}
	return a.profiled(Backend, a.Backend, env...)
}

func (a Application) frontend() component.Component {
	return a.profiled(Frontend, a.Frontend, workload.Value("BACKEND_URL", fmt.Sprintf("http://%s-%s:%d", a.Name, Backend, a.Backend.Port)))
}

// profiled returns a component that runs an image of the user. See [workload.Profiled].
func (a Application) profiled(name string, w Workload, env ...*corev1ac.EnvVarApplyConfiguration) component.Component {
	pod := func() *corev1ac.PodSpecApplyConfiguration {
		return a.pod(name, w, 0, workload.Container(name, w.Image).WithEnv(env...))
	}
	user := ptr.Deref(w.User, workloadv1alpha1.UserContext{})
	given := &workloadv1alpha1.SecurityContext{RunAsUser: user.RunAsUser, RunAsGroup: user.RunAsGroup, RunAsNonRoot: user.RunAsNonRoot}
	return a.deployed(name, w, workload.Profiled(a.named(name, "-"+name), w.Replicas, given, a.isRestricted(), pod))
}

// isRestricted reports whether the pods of all components must meet the restricted Pod Security profile.
func (a Application) isRestricted() bool { return a.Restricted || a.Hardened }

// pod returns the pods of a component that is a Deployment.
func (a Application) pod(
	name string, w Workload, user int64, container *corev1ac.ContainerApplyConfiguration,
) *corev1ac.PodSpecApplyConfiguration {
	container.WithArgs(w.Args...).WithPorts(workload.Port(portName, w.Port)).WithReadinessProbe(workload.TCPProbe(portName))
	container.WithResources(workload.Resources(a.resources(w.Resources, componentResources)))
	pod := workload.Pod(user, container)
	workload.ListenOn(pod, w.Port)
	if a.Hardened {
		workload.Spread(a.named(name, "-"+name), pod)
	}
	return pod
}

// deployed returns a component that is a Deployment with a Service.
func (a Application) deployed(name string, w Workload, deployment child.Desired) component.Component {
	n, field := a.named(name, "-"+name), "spec."+name
	children := []child.Desired{deployment, workload.Service(n, portName, w.Port)}
	if a.Hardened && w.Replicas > 1 {
		children = append(children, workload.DisruptionBudget(n))
	}
	return component.Component{
		Name: name, Field: field, Fields: workload.Fields(field),
		Children: append(children, a.policies(name)...), Endpoint: a.endpoint(n.Name, w.Port),
		Advice: func([]child.Cause) string { return a.imageAdvice(field, w.Port) },
	}
}

// imageAdvice says what the image of a component must do. field is the field of the component.
func (a Application) imageAdvice(field string, port int32) string {
	user := ""
	if a.isRestricted() {
		user = " run as a user other than root,"
	}
	return fmt.Sprintf("check %s.image, which must exist, be allowed,%s and listen on port %d", field, user, port)
}
