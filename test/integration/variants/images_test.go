// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/cluster"
)

// mirror is a mirror of Docker Hub, and pinned the replacement of a single image.
const (
	mirror = "registry.example.com/hub"
	pinned = "registry.example.com/mysql@sha256:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
)

// TestImagesOfAllKindsComeFromMirror: with --image-registry and --images, no pod of any kind has an
// image of Docker Hub, except for those that fields name.
func TestImagesOfAllKindsComeFromMirror(t *testing.T) {
	namespace := shared.Namespace(t)
	examples := []string{"artifacts/examples/demoapp.yaml", "artifacts/examples/demoappcluster.yaml", "test/integration/variants/testdata/images.yaml"}
	for _, kind := range namespacedKinds() {
		folder := "artifacts/kinds/" + kind.name
		if err := shared.InstallCRDs(t.Context(), folder+"/crd.yaml"); err != nil {
			t.Fatal(err)
		}
		if err := shared.ApplyFiles(t.Context(), "", folder+"/rbac.yaml"); err != nil {
			t.Fatal(err)
		}
		examples = append(examples, folder+"/example.yaml")
		for _, claim := range kind.claims {
			shared.Volume(t, namespace, claim, "10Gi")
		}
	}
	shared.Volume(t, namespace, "data-mysql-db-0", "10Gi")
	cluster.StartOperator(t.Context(), t, shared, "--image-registry="+mirror, "--images=mysql:8.4="+pinned)

	ofFields := map[string]bool{}
	for _, file := range examples {
		applyExample(t, namespace, file, ofFields)
	}

	for _, known := range images.Known() {
		delete(ofFields, known)
	}
	found := imagesIn(t, namespace)
	for image, object := range found {
		if !strings.HasPrefix(image, mirror+"/") && image != pinned && !ofFields[image] {
			t.Errorf("%s has the image %s, which does not come from the mirror", object, image)
		}
	}
	for _, image := range []string{
		mirror + "/library/nginx:1.27-alpine", mirror + "/library/redis:7-alpine", mirror + "/library/memcached:1.6.32-alpine",
		mirror + "/rclone/rclone:1.69", mirror + "/library/postgres:18-alpine", mirror + "/library/mongo:8.0",
		mirror + "/library/postgres:17", pinned,
	} {
		if found[image] == "" {
			t.Errorf("no pod has the image %s, found %q", image, slices.Sorted(maps.Keys(found)))
		}
	}
}

// applyExample applies the objects of a file, adds the images of their fields, and waits until the
// custom resources are ready.
func applyExample(t *testing.T, namespace, file string, ofFields map[string]bool) {
	t.Helper()
	objects, err := shared.Objects(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), namespace, file); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		addImages(object.Object, ofFields)
	}
	for _, object := range objects {
		if group := object.GroupVersionKind().Group; strings.Contains(group, "example.com") || strings.Contains(group, "my.domain") {
			shared.AwaitReady(t.Context(), t, namespace, object)
		}
	}
}

// addImages adds the values of all fields with the name image.
func addImages(value any, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		if image, ok := v["image"].(string); ok {
			found[image] = true
		}
		for _, child := range v {
			addImages(child, found)
		}
	case []any:
		for _, child := range v {
			addImages(child, found)
		}
	}
}

// imagesIn returns the images of the pods and of the templates of pods in a namespace, each with an
// object that has it.
func imagesIn(t *testing.T, namespace string) map[string]string {
	t.Helper()
	ctx, all, found := t.Context(), metav1.ListOptions{}, map[string]string{}
	add := func(kind, name string, spec corev1.PodSpec) {
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			found[container.Image] = kind + " " + name
		}
	}
	pods, err := shared.Client.CoreV1().Pods(namespace).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		add("Pod", pod.Name, pod.Spec)
	}
	deployments, err := shared.Client.AppsV1().Deployments(namespace).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, deployment := range deployments.Items {
		add("Deployment", deployment.Name, deployment.Spec.Template.Spec)
	}
	sets, err := shared.Client.AppsV1().StatefulSets(namespace).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets.Items {
		add("StatefulSet", set.Name, set.Spec.Template.Spec)
	}
	cronJobs, err := shared.Client.BatchV1().CronJobs(namespace).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, cronJob := range cronJobs.Items {
		add("CronJob", cronJob.Name, cronJob.Spec.JobTemplate.Spec.Template.Spec)
	}
	return found
}
