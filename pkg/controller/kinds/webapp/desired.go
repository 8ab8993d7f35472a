// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

// container is the name of the container. portName is the name of its port and the Service's port.
const container, portName = "app", "http"

// Desired returns the children of a WebApp: its Deployment first. The pods meet the restricted Pod
// Security profile, unless the security context of the WebApp says otherwise.
func Desired(w *examplev1.WebApp) []child.Desired {
	named := workload.Named{Name: w.Name, Selector: map[string]string{examplev1.LabelWebApp: w.Name}}
	app := workload.Container(container, w.Spec.Image).WithPorts(workload.Port(portName, w.Spec.Port)).
		WithReadinessProbe(workload.TCPProbe(portName)).WithResources(workload.Resources(w.Spec.Resources))
	workload.Secure(app, w.Spec.SecurityContext)
	pod := workload.Pod(0, app)
	workload.ListenOn(pod, w.Spec.Port)
	return []child.Desired{
		workload.Deployment(named, w.Spec.Replicas, pod),
		workload.Service(named, portName, w.Spec.Port),
	}
}
