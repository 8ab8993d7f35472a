// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memcachedbackup

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/images"
)

// port is where the pods serve memcached, and user is the user of the image.
const port, user = 11211, 11211

// Desired returns the child of a MemcachedBackup.
func Desired(m *cachev1.MemcachedBackup, from images.Table) child.Desired {
	named := workload.Named{Name: m.Name, Selector: map[string]string{cachev1.LabelMemcachedBackup: m.Name}}
	return workload.Deployment(named, *m.Spec.Size, desiredPod(from.Of(images.Memcached)))
}

// desiredPod returns the pods, which meet the restricted Pod Security profile.
func desiredPod(image string) *corev1ac.PodSpecApplyConfiguration {
	container := workload.Container("memcached", image).WithArgs("--memory-limit=64").WithPorts(workload.Port("memcached", port)).
		WithReadinessProbe(workload.TCPProbe("memcached")).
		WithResources(workload.Requirements(workload.Quantities("50m", "96Mi"), workload.Quantities("500m", "128Mi")))
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	return workload.Pod(user, container)
}
