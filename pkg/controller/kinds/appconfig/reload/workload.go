// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
)

// workload is the cached part of a Deployment, StatefulSet or DaemonSet.
type workload struct {
	metav1.ObjectMeta

	kind string
	// configMaps are the names of the ConfigMaps that the pods use, with Options.Suffix, sorted.
	configMaps []string
	// asksFor says that the workload has Options.Label with the value "true".
	asksFor bool
	// health is the health of a workload that uses a ConfigMap.
	health health.Health
	// hashes are the annotations of the pod template that begin with Options.Annotation.
	hashes map[string]string
}

func (w *workload) id() string { return w.kind + "/" + w.Name }

// reduce is the transform of the informers.
func (o Options) reduce(object any) (any, error) {
	switch w := object.(type) {
	case *appsv1.Deployment:
		return o.reduced("Deployment", w, &w.Spec.Template), nil
	case *appsv1.StatefulSet:
		return o.reduced("StatefulSet", w, &w.Spec.Template), nil
	case *appsv1.DaemonSet:
		return o.reduced("DaemonSet", w, &w.Spec.Template), nil
	default:
		return object, nil
	}
}

func (o Options) reduced(kind string, object metav1.Object, template *corev1.PodTemplateSpec) *workload {
	w := &workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(), Generation: object.GetGeneration(),
			CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
		},
		kind: kind, configMaps: o.configMapsOf(&template.Spec), asksFor: object.GetLabels()[o.Label] == "true", hashes: map[string]string{},
	}
	if len(w.configMaps) == 0 {
		return w
	}
	full := health.OfTyped(object)
	w.health = health.Health{Status: full.Status, Message: full.Message}
	for name, hash := range template.Annotations {
		if strings.HasPrefix(name, o.Annotation) {
			w.hashes[name] = hash
		}
	}
	return w
}

// configMapsOf returns the names of the ConfigMaps that a pod uses by a volume or the environment.
func (o Options) configMapsOf(pod *corev1.PodSpec) []string {
	var names []string
	add := func(name string) {
		if strings.HasSuffix(name, o.Suffix) {
			names = append(names, strings.Clone(name))
		}
	}
	for _, volume := range pod.Volumes {
		if volume.ConfigMap != nil {
			add(volume.ConfigMap.Name)
		}
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				if source.ConfigMap != nil {
					add(source.ConfigMap.Name)
				}
			}
		}
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.ConfigMapKeyRef != nil {
				add(variable.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
		for _, source := range container.EnvFrom {
			if source.ConfigMapRef != nil {
				add(source.ConfigMapRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
