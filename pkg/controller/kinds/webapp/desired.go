// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

// container is the name of the container. portName is the name of its port and the Service's port.
const container, portName = "app", "http"

// Desired returns the children of a WebApp: its Deployment first. The pods meet the restricted Pod
// Security profile if the namespace enforces it, or if the WebApp asks for a user other than root. Other
// pods run as the user of their image, which may be root, with the capabilities that images expect. The
// security context of the WebApp overrides single fields. Pods that run do not become less strict before
// the WebApp changes.
func Desired(w *examplev1.WebApp, enforced bool) []child.Desired {
	named := workload.Named{Name: w.Name, Selector: map[string]string{examplev1.LabelWebApp: w.Name}}
	deployment := workload.Deployment(named, w.Spec.Replicas, desiredPod(w, true))
	service := workload.Service(named, portName, w.Spec.Port)
	if enforced || isNonRoot(w.Spec.SecurityContext) {
		return []child.Desired{deployment, service}
	}
	stock := workload.Deployment(named, w.Spec.Replicas, desiredPod(w, false))
	return []child.Desired{child.KeepUntilChange(stock, deployment), service}
}

// isNonRoot reports whether a security context asks for a user other than root.
func isNonRoot(given *workloadv1alpha1.SecurityContext) bool {
	return given != nil && (ptr.Deref(given.RunAsNonRoot, false) || ptr.Deref(given.RunAsUser, 0) != 0)
}

func desiredPod(w *examplev1.WebApp, restricted bool) *corev1ac.PodSpecApplyConfiguration {
	app := workload.Container(container, w.Spec.Image).WithPorts(workload.Port(portName, w.Spec.Port)).
		WithReadinessProbe(workload.TCPProbe(portName)).WithResources(workload.Resources(w.Spec.Resources))
	if !restricted {
		app.SecurityContext.Capabilities = nil
	}
	workload.Secure(app, w.Spec.SecurityContext)
	pod := workload.Pod(0, app)
	if !restricted {
		pod.SecurityContext.RunAsNonRoot = nil
	}
	workload.ListenOn(pod, w.Spec.Port)
	return pod
}
