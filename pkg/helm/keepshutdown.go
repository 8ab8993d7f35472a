// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/shutdown"
)

// keepShutdown gives the next manifest the pod templates of the previous revision that differ only in
// how the pods end, see Release.KeepShutdown. It sends no request, because Helm has already read the
// previous revision. A revision that is not verified is not used.
func (o *operation) keepShutdown(text string) error {
	previous := o.store.previous
	if !o.keepsShutdown || previous == nil || previous.release == nil || !o.store.checked.Has(previous.record.Revision) {
		return nil
	}
	next, err := o.documents(text)
	if err != nil {
		return err
	}
	before, err := o.documents(previous.release.Manifest)
	if err != nil {
		return nil //nolint:nilerr // Nothing of a manifest that cannot be parsed is kept.
	}
	running := map[workload]map[string]any{}
	for _, document := range before {
		for _, object := range document.Objects {
			if template := templateOf(object); template != nil {
				running[workloadOf(object)] = template
			}
		}
	}
	kept, changed, err := manifest.Rewrite(next, func(object *unstructured.Unstructured) error {
		if template := running[workloadOf(object)]; differsInShutdown(template, templateOf(object)) {
			return unstructured.SetNestedMap(object.Object, template, podTemplate(object)...)
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	o.kept = manifest.Text(kept)
	o.parsed[text], o.parsed[o.kept] = kept, kept
	return nil
}

// differsInShutdown reports whether two pod templates differ, and only in how the pods end.
func differsInShutdown(running, next map[string]any) bool {
	if running == nil || next == nil || equality.Semantic.DeepEqual(running, next) {
		return false
	}
	running, _ = shutdown.Without(running)
	next, _ = shutdown.Without(next)
	return equality.Semantic.DeepEqual(running, next)
}

// workload identifies an object of a manifest. Objects without a namespace are in the release's.
type workload struct {
	schema.GroupKind

	namespace, name string
}

func workloadOf(object *unstructured.Unstructured) workload {
	return workload{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// templateOf returns the pod template of an object; nil for an object without one.
func templateOf(object *unstructured.Unstructured) map[string]any {
	path := podTemplate(object)
	if len(path) == 0 {
		return nil // A Pod has none.
	}
	template, _, _ := unstructured.NestedMap(object.Object, path...)
	return template
}
