// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

// container is the name of the container. portName is the name of its port and the Service's port.
const container, portName = "app", "http"

// Desired returns the children of a WebApp: its Deployment first. restricted says that the namespace enforces
// the restricted Pod Security profile. See [workload.Profiled].
func Desired(w *examplev1.WebApp, restricted bool) []child.Desired {
	named := workload.Named{Name: w.Name, Selector: map[string]string{examplev1.LabelWebApp: w.Name}}
	return []child.Desired{
		workload.Profiled(named, w.Spec.Replicas, w.Spec.SecurityContext, restricted, func() *corev1ac.PodSpecApplyConfiguration { return desiredPod(w) }),
		workload.Service(named, portName, w.Spec.Port),
	}
}

func desiredPod(w *examplev1.WebApp) *corev1ac.PodSpecApplyConfiguration {
	app := workload.Container(container, w.Spec.Image).WithPorts(workload.Port(portName, w.Spec.Port)).
		WithReadinessProbe(workload.TCPProbe(portName)).WithResources(workload.Resources(w.Spec.Resources))
	pod := workload.Pod(0, app)
	workload.ListenOn(pod, w.Spec.Port)
	return pod
}
