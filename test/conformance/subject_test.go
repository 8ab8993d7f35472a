// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/pkg/helm"
)

// subject is an object of a release under test.
type subject struct {
	helm.ObjectReference

	client dynamic.ResourceInterface
	// manifest is the applied manifest. pristine is the object after the apply.
	manifest  map[string]any
	pristine  *unstructured.Unstructured
	mutations []mutation
}

// subjectsOf returns the objects of the deployed release.
func subjectsOf(t *testing.T, e *engine) []*subject {
	t.Helper()
	manifests := manifestsOf(t, newestRelease(t.Context(), t, e.namespace).Manifest)
	var subjects []*subject
	for _, entry := range e.baseline.Inventory {
		s := &subject{ObjectReference: entry.ObjectReference, client: clientOf(t, entry.ObjectReference)}
		s.manifest = manifests[entry.Kind+"/"+entry.Name]
		if s.manifest == nil {
			t.Fatalf("%s is not in the manifest", s.ObjectReference)
		}
		storeStringData(s.manifest)
		metadata := s.manifest["metadata"].(map[string]any)
		for _, mark := range []struct{ in, key, value string }{
			{"labels", "app.kubernetes.io/managed-by", "Helm"},
			{"annotations", "meta.helm.sh/release-name", releaseName},
			{"annotations", "meta.helm.sh/release-namespace", e.namespace},
		} {
			fields, _ := metadata[mark.in].(map[string]any)
			if fields == nil {
				fields = map[string]any{}
			}
			fields[mark.key] = mark.value
			metadata[mark.in] = fields
		}
		var err error
		if s.pristine, err = s.client.Get(t.Context(), s.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		s.mutations = mutationsOf(t, s.manifest, s.pristine)
		subjects = append(subjects, s)
	}
	return subjects
}

// storeStringData converts the stringData of a Secret to data, as the API server does.
func storeStringData(manifest map[string]any) {
	texts, ok := manifest["stringData"].(map[string]any)
	if !ok {
		return
	}
	delete(manifest, "stringData")
	data, _ := manifest["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range texts {
		text, _ := value.(string) // A null is an empty text.
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	manifest["data"] = data
}

// manifestsOf returns the objects of a manifest by kind and name.
func manifestsOf(t *testing.T, manifest string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if !object.IsList() {
			objects[object.GetKind()+"/"+object.GetName()] = object.Object
			continue
		}
		err = object.EachListItem(func(item runtime.Object) error {
			listed := item.(*unstructured.Unstructured)
			objects[listed.GetKind()+"/"+listed.GetName()] = listed.Object
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// clientOf returns a client for the object's resource.
func clientOf(t *testing.T, reference helm.ObjectReference) dynamic.ResourceInterface {
	t.Helper()
	kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	mapping, err := shared.Mapping(kind.GroupKind(), kind.Version) // A CRD of a chart may define the kind.
	if err != nil {
		t.Fatal(err)
	}
	client := shared.Dynamic.Resource(mapping.Resource)
	if reference.Namespace == "" {
		return client
	}
	return client.Namespace(reference.Namespace)
}
