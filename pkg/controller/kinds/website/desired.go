// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/images"
)

// port is where the pods serve the page, and nginx is the user that they run as.
const port, nginx = 80, 101

// Desired returns the children of a Website. pull says where the default image is pulled from.
func Desired(w *webappv1.Website, pull images.Table) []child.Desired {
	named := workload.Named{Name: w.Name, Selector: labelsOf(w)}
	hash := sha256.Sum256([]byte(w.Spec.HTML))
	deployment := workload.Deployment(named, *w.Spec.Replicas, desiredPod(w, pull.Of(w.Spec.Image)))
	deployment.Spec.Template.WithAnnotations(map[string]string{webappv1.AnnotationHTMLHash: hex.EncodeToString(hash[:16])})
	return []child.Desired{
		corev1ac.ConfigMap(w.Name, "").WithLabels(labelsOf(w)).WithData(map[string]string{"index.html": w.Spec.HTML}),
		deployment,
		workload.Service(named, "http", port),
	}
}

func labelsOf(w *webappv1.Website) map[string]string {
	return map[string]string{webappv1.LabelApp: Name, webappv1.LabelWebsite: w.Name}
}

// desiredPod returns the pods, which meet the restricted Pod Security profile. Port 80
// needs a sysctl, and the files of the web server a volume, because it does not run as root.
func desiredPod(w *webappv1.Website, image string) *corev1ac.PodSpecApplyConfiguration {
	container := workload.Container("web", image).WithPorts(workload.Port("http", port)).
		WithReadinessProbe(corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/").WithPort(intstr.FromString("http")))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("html").WithMountPath("/usr/share/nginx/html").WithReadOnly(true),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/var/cache/nginx").WithSubPath("cache"),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/var/run").WithSubPath("run"))
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	pod := workload.Pod(nginx, container).WithVolumes(
		corev1ac.Volume().WithName("html").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(w.Name)),
		corev1ac.Volume().WithName("writable").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	workload.ListenOn(pod, port)
	return pod
}
