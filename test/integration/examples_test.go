// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// examplesWithTests are the examples that need more than a namespace, and so have tests of their
// own.
var examplesWithTests = map[string]string{
	"demoappcluster.yaml": "TestClusterExample",
	"suspend.yaml":        "TestSuspendExample",
}

// blockedExamples are the objects that wait for another object of their example.
var blockedExamples = []string{"port-wanter"}

// TestExamples applies each example without changes. All its custom resources become ready.
func TestExamples(t *testing.T) {
	t.Parallel()
	crds, err := shared.Objects("artifacts/crds")
	if err != nil {
		t.Fatal(err)
	}
	kinds := sets.New[schema.GroupKind]()
	for _, crd := range crds {
		group, _, groupErr := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, kindErr := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if err := errors.Join(groupErr, kindErr); err != nil {
			t.Fatal(err)
		}
		kinds.Insert(schema.GroupKind{Group: group, Kind: kind})
	}
	files, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if examplesWithTests[filepath.Base(file)] != "" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			objects, err := shared.Objects(file)
			if err != nil {
				t.Fatal(err)
			}

			if err := shared.ApplyFiles(t.Context(), ns.Name, file); err != nil {
				t.Fatal(err)
			}

			for _, object := range objects {
				kind := object.GroupVersionKind().GroupKind()
				switch {
				case !kinds.Has(kind) || slices.Contains(blockedExamples, object.GetName()):
				case kind == v1alpha1.SchemeGroupVersion.WithKind("DemoApp").GroupKind():
					ns.AwaitReady(object.GetName())
				default:
					shared.AwaitReady(t.Context(), t, ns.Name, object)
				}
			}
		})
	}
}

// TestExamplesOfKinds applies the examples of opt-in kinds without changes, in namespaces that
// enforce the restricted profile.
func TestExamplesOfKinds(t *testing.T) {
	t.Parallel()
	// The functions install a kind, and return a namespace.
	kinds := map[string]func(*testing.T) string{
		"webapp":          func(t *testing.T) string { return newWebSite(t).namespace },
		"memcached":       func(t *testing.T) string { return newMemcached(t).namespace },
		"memcachedbackup": func(t *testing.T) string { return newCaches(t).namespace },
		"backup":          func(t *testing.T) string { return newVault(t).namespace },
		"appstack": func(t *testing.T) string {
			s := newStacks(t)
			s.database = "appstack-sample-db"
			s.provideVolume()
			return s.namespace
		},
	}
	for kind, install := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace, file := install(t), "artifacts/kinds/"+kind+"/example.yaml"
			objects, err := shared.Objects(file)
			if err != nil {
				t.Fatal(err)
			}

			if err := shared.ApplyFiles(t.Context(), namespace, file); err != nil {
				t.Fatal(err)
			}

			for _, object := range objects {
				if object.GetKind() != "Secret" {
					shared.AwaitReady(t.Context(), t, namespace, object)
				}
			}
		})
	}
}

// TestPodsMeetRestrictedProfile installs into a namespace that enforces the restricted profile.
func TestPodsMeetRestrictedProfile(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	_, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), ns.Name, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Create(apps.Named("web"))
	if app := ns.AwaitReady("web"); app.Status.ReadyReplicas != 1 {
		t.Errorf("%d pods are ready", app.Status.ReadyReplicas)
	}
}
