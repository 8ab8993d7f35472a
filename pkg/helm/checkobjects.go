// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// maxInventoryBytes is the largest size of a release's inventory as JSON. Callers keep the
// inventory in an object's status, whose spec may have values. The API server stores at most 1.5
// MiB per object.
const maxInventoryBytes = 512 << 10

// inventoryEntryBytes is the size of an inventory entry as JSON, without the texts of its
// ObjectReference.
const inventoryEntryBytes = len(`{"apiVersion":"","kind":"","namespace":"","name":"","uid":"","digest":""},`) + 36 + 32

func identityOf(info *resource.Info) Identity {
	return Identity{GroupKind: info.Mapping.GroupVersionKind.GroupKind(), Namespace: info.Namespace, Name: info.Name}
}

// checkObjects fails when a manifest has objects that cannot be applied together: named
// twice, or more than an inventory can have.
func checkObjects(list kube.ResourceList) error {
	sources, size := map[Identity]string{}, 0
	var refused refusals
	for _, info := range list {
		ref := reference(info)
		id := identityOf(info)
		if other, ok := sources[id]; ok {
			refused.add("", fmt.Errorf("%s%s is in the manifest again%s: rename or remove one of them", ref, from(other), from(info.Source)))
			continue
		}
		sources[id] = info.Source
		size += inventoryEntryBytes + len(ref.APIVersion) + len(ref.Kind) + len(ref.Namespace) + len(ref.Name)
	}
	if size > maxInventoryBytes {
		return fmt.Errorf("the inventory of %d objects has %d bytes, more than the limit of %d: split the chart",
			len(list), size, maxInventoryBytes)
	}
	return refused.err()
}

// maxNotes is the number of notes about the objects of one operation.
const maxNotes = 10

// review notes the parts of the objects that are not sent, and fails when server-side apply cannot
// write an object in the form of the manifest.
func (o *operation) review(list kube.ResourceList) error {
	var refused refusals
	for _, info := range list {
		object, err := content(info)
		if err != nil {
			return err
		}
		notes, errs := ssa.Check(object)
		for _, err := range errs {
			refused.add(info.Source, fmt.Errorf("%s: %w", reference(info), err))
		}
		for _, note := range notes {
			o.addNote(info, note)
		}
	}
	return refused.err()
}

// addNote adds a line about an object of the manifest, once.
func (o *operation) addNote(info *resource.Info, note string) {
	note = fmt.Sprintf("%s: %s", reference(info), note)
	if info.Source != "" {
		note = info.Source + ": " + note
	}
	if !slices.Contains(o.notes, note) && len(o.notes) < maxNotes {
		o.notes = append(o.notes, note)
	}
}

// from names the template of an object in a message, if it is known.
func from(source string) string {
	if source == "" {
		return ""
	}
	return " from " + source
}
