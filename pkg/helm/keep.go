// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// isKept reports whether the manifest keeps an object. It is false for an object without content.
func isKept(info *resource.Info) bool {
	object, err := content(info)
	return err == nil && manifest.IsKept(object)
}

// disownKept removes the release's owner from objects that the manifest keeps. The engine gives
// them no owner, but earlier versions could not read the policy if another label or annotation was
// not a text. Those versions did not apply the policy, either.
func (o *operation) disownKept(manifest string) error {
	list, err := o.former(manifest)
	if err != nil {
		return err
	}
	for _, info := range list {
		if !isKept(info) {
			continue
		}
		if err := o.disown(info); err != nil {
			return err
		}
	}
	return nil
}

// disown removes the release's owner from an object that is kept. Otherwise the garbage
// collector would remove the object with the owner. An object outside the release's namespace then
// names the owner, so that the owner's next release can take it again, see provesOwner.
func (o *operation) disown(info *resource.Info) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if o.isGone(info, err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", reference(info), err)
	}
	o.leave(reference(info), "its resource policy keeps it")
	metadata := map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	switch {
	case o.isController(live):
		metadata["ownerReferences"] = withoutController(live)
	case o.primary != nil && o.isOutside(live) && o.claimed(live) && o.provesOwner(info, live) && !o.namesOwner(live):
		metadata["annotations"] = ownerAnnotations(o.release.Namespace, *o.primary)
	default:
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("%s: %w", reference(info), err)
	}
	_, err = o.client(info).Patch(o.ctx, info.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil && !ssa.IsGone(err, info.Name) {
		return fmt.Errorf("let go of %s: %w", reference(info), err)
	}
	o.logger.Info("Let go of an object that is kept", slog.String("target", reference(info).String()))
	return nil
}

// withoutController returns the owners of an object that are not its controller.
func withoutController(object metav1.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return ptr.Deref(reference.Controller, false)
	})
}
