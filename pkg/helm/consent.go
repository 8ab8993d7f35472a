// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// ConsentError means that a takeover would delete or replace objects or change pods, and that nobody consents, see
// [Release.Consents]. Nothing was written.
type ConsentError struct {
	// Deleted are the objects that the takeover would delete, and Replaced those that it would delete and create
	// again, see [Release.ForceReplace]. Changed are those whose pods it would change.
	Deleted, Replaced []ObjectReference
	Changed           []PodChange
}

// PodChange is a change of an object's pod template.
type PodChange struct {
	Object ObjectReference
	// Fields are JSON pointers into the object, see [PodChanges].
	Fields []string
}

// maxNamedFields is the number of fields of an object that a message has.
const maxNamedFields = 3

// Error implements error. The message has no values. Errors with different objects or fields have different
// messages: a shortened message ends with a digest.
func (e *ConsentError) Error() string {
	short, whole := e.text(maxEnumerated, maxNamedFields), e.text(math.MaxInt, math.MaxInt)
	if short == whole {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	return fmt.Sprintf("%s (digest of all: %x)", short, sum[:4])
}

// text names at most so many objects of each effect, and so many fields of each object.
func (e *ConsentError) text(objects, fields int) string {
	var effects []string
	list := func(effect string, references []ObjectReference) {
		names := make([]string, 0, len(references))
		for _, object := range references {
			names = append(names, object.String())
		}
		if len(names) > 0 {
			effects = append(effects, effect+" "+message.List(names, objects))
		}
	}
	list("delete", e.Deleted)
	list("replace", e.Replaced)
	if len(e.Changed) > 0 {
		names := make([]string, 0, len(e.Changed))
		for _, change := range e.Changed {
			names = append(names, fmt.Sprintf("%s (%s)", change.Object, message.List(change.Fields, fields)))
		}
		effects = append(effects, "change the pods of "+message.List(names, objects))
	}
	return "the takeover would " + strings.Join(effects, ", and ")
}

// takesOver reports whether the next revision takes a release over from another client. A revision that
// another client makes of a release of this engine is no takeover, unless an operator made it.
func takesOver(history []*record.Record, baseline Baseline) bool {
	if len(history) == 0 || history[len(history)-1].Own {
		return false
	}
	return baseline.Revision == 0 || history[len(history)-1].Controller.UID != ""
}

// consent fails if the revision takes the release over, and would change pods or delete objects without
// consent. It asks the API server by dry runs: fields that the upstream operator left in an object, and
// that no manifest names, go with the takeover, too.
func (o *operation) consent(next *releasev1.Release) error {
	if !takesOver(o.engine.records.History(o.release), o.baseline) {
		return nil
	}
	needed := &ConsentError{}
	leftovers, claimed, err := o.leftoverObjects(next, false)
	if err != nil {
		return err
	}
	for _, info := range append(leftovers, claimed...) {
		_, fate, err := o.fateOf(info)
		if err != nil && !isSkipped(err) {
			return err
		}
		if fate == fateDeleted {
			needed.Deleted = append(needed.Deleted, reference(info))
		}
	}
	resources, err := o.build(next.Manifest)
	if err != nil {
		return err
	}
	replaced := sets.New[Identity]()
	for _, info := range resources {
		changed, replaces, err := o.podChanges(info)
		switch {
		case err != nil:
			return err
		case replaces:
			replaced.Insert(identityOf(info))
			needed.Replaced = append(needed.Replaced, reference(info))
		case len(changed) > 0:
			needed.Changed = append(needed.Changed, PodChange{Object: reference(info), Fields: changed})
		}
	}
	if len(needed.Deleted)+len(needed.Replaced)+len(needed.Changed) == 0 {
		return nil
	}
	if o.consents == nil || !o.consents(needed) {
		return needed
	}
	o.replaceable = replaced
	return nil
}

// podChanges returns the fields of the live pod template that an apply of an object would change. If
// objects may be replaced, it also reports whether the apply would replace the object, with or without pods.
func (o *operation) podChanges(info *resource.Info) (changed []string, replaces bool, _ error) {
	object, err := content(info)
	if err != nil || podTemplate(object) == nil && !o.replaces {
		return nil, false, err
	}
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	sent, err := o.spare(info, object)
	if err != nil {
		return nil, false, err
	}
	sent = sent.DeepCopy()
	sent.SetOwnerReferences(nil) // The object may still have a former owner, and has one controller.
	applied, err := o.applyDry(info, sent)
	if collisions := ssa.CollisionsOf(err); !collisions.None() {
		return inPodTemplate(live, collisions.Pointers()), false, nil // The apply restores these lists first.
	}
	if err == nil && o.clientSide {
		applied, err = takenFrom(o.ctx, o.client(info), live, applied, o.clientSideManagers(info)(live))
	}
	if err == nil {
		return PodChanges(live, applied), false, nil
	}
	err = refused(reference(info), err)
	if o.replaces && isChangeRefused(err) {
		err = o.checkReplace(info, sent, live, err)
		return nil, err == nil, err
	}
	return nil, false, err
}

// PodChanges returns the fields of an object's pod template that differ between two versions of the object,
// as JSON pointers. An object is its own pod template if it is a Pod.
func PodChanges(before, after *unstructured.Unstructured) []string {
	if podTemplate(after) == nil {
		return nil
	}
	return inPodTemplate(before, ssa.Differences(after.Object, before.Object))
}

// inPodTemplate returns the fields that are in the pod template of an object.
func inPodTemplate(object *unstructured.Unstructured, fields []string) []string {
	path := podTemplate(object)
	if path == nil {
		return nil
	}
	if len(path) == 0 {
		path = []string{"spec"} // Labels and annotations of a Pod restart nothing.
	}
	prefix := "/" + strings.Join(path, "/")
	return slices.DeleteFunc(fields, func(field string) bool { return field != prefix && !strings.HasPrefix(field, prefix+"/") })
}

// podTemplates are the paths of pod templates in objects of all kinds.
var podTemplates = [][]string{{}, {"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}}

// podTemplate returns the path of the pod template in an object; nil without one.
func podTemplate(object *unstructured.Unstructured) []string {
	for _, path := range podTemplates {
		containers, _, _ := unstructured.NestedFieldNoCopy(object.Object, append(slices.Clone(path), "spec", "containers")...)
		if _, ok := containers.([]any); ok {
			return path
		}
	}
	return nil
}
