// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Action is the user's request to the operator about an object.
type Action string

const (
	// Reconcile starts one full pass.
	Reconcile Action = "reconcile"
	// Retry starts one full pass, and an upgrade of a release although nothing changed or its
	// attempts were given up.
	Retry Action = "retry"
	// Suspend freezes the object by an annotation, for every kind. It writes no field, because a
	// GitOps tool would write the field again.
	Suspend Action = "suspend"
	// Resume removes that annotation, and sets spec.suspend to false if spec.suspend suspends the
	// object.
	Resume Action = "resume"
)

// Request is the request of a user about one object.
type Request struct {
	Action Action
	// Reason says why the object is suspended; optional.
	Reason string
	// At is the time of the request. It distinguishes two requests.
	At time.Time
	// DryRun is empty, "client" or "server", as in kubectl.
	DryRun string
}

// Outcome is the answer to a request.
type Outcome struct {
	// Object is the object after the write.
	Object *unstructured.Unstructured
	// Changed reports whether the write changed the object.
	Changed bool
	// Handled is the value that the operator repeats in status.lastHandledRequestedAt of a release
	// when it has handled the request; empty for Suspend and Resume.
	Handled string
	// Warnings say why the request may have another effect than the user expects.
	Warnings []string
}

// Do writes a request to an object. The operator acts on it as soon as it sees the change. Do needs
// the permissions to get and to patch the object.
func (c *Cluster) Do(ctx context.Context, object Reference, request Request) (Outcome, error) {
	live, err := c.Get(ctx, object)
	if err != nil {
		return Outcome{}, err
	}
	return c.DoTo(ctx, live, request)
}

// DoTo is [Cluster.Do] for an object that was read before.
func (c *Cluster) DoTo(ctx context.Context, live *unstructured.Unstructured, request Request) (Outcome, error) {
	change, err := changeFor(live, request)
	if err != nil {
		return Outcome{}, err
	}
	after, err := c.patch(ctx, live, change.patch(live), request.DryRun)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Object: after, Changed: !sameContent(live, after), Handled: change.handled, Warnings: append(change.warnings(live), suspensions(live, after, request)...),
	}, nil
}

// change is a change of annotations and of spec.suspend.
type change struct {
	// annotations are the new values; nil removes an annotation.
	annotations map[string]any
	// endsSuspend sets spec.suspend to false.
	endsSuspend bool
	handled     string
}

// changeFor returns the change for a request. It decides nothing else.
func changeFor(live *unstructured.Unstructured, request Request) (change, error) {
	at := request.At.UTC().Format(time.RFC3339Nano)
	switch request.Action {
	case Reconcile:
		return change{annotations: map[string]any{releasev1alpha1.AnnotationRequestedAt: at}, handled: at}, nil
	case Retry:
		return change{annotations: map[string]any{releasev1alpha1.AnnotationRequestedAt: at, releasev1alpha1.AnnotationForceAt: at}, handled: at}, nil
	case Suspend:
		reason := any(nil) // The reason of an earlier suspension does not hold for this one.
		if request.Reason != "" {
			reason = request.Reason
		}
		return change{annotations: map[string]any{apimeta.AnnotationPaused: "true", apimeta.AnnotationPausedReason: reason}}, nil
	case Resume:
		suspended := StatusOf(live).Condition(apimeta.ConditionSuspended)
		field, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend")
		return change{
			annotations: map[string]any{apimeta.AnnotationPaused: nil, apimeta.AnnotationPausedReason: nil},
			// Other kinds have a field of this name with another meaning.
			endsSuspend: field && suspended != nil && suspended.Reason == releasev1alpha1.ReasonSuspendedBySpec,
		}, nil
	default:
		return change{}, fmt.Errorf("no action %q; use %s, %s, %s or %s", request.Action, Reconcile, Retry, Suspend, Resume)
	}
}

// patch returns the change as a JSON merge patch, and only for the object of this UID.
func (c change) patch(live *unstructured.Unstructured) map[string]any {
	patch := map[string]any{"metadata": map[string]any{"uid": string(live.GetUID()), "annotations": c.annotations}}
	if c.endsSuspend {
		patch["spec"] = map[string]any{"suspend": false}
	}
	return patch
}

// warnings say whether a GitOps tool will undo the change.
func (c change) warnings(live *unstructured.Unstructured) []string {
	var found []string
	for _, annotation := range slices.Sorted(maps.Keys(c.annotations)) {
		if manager := gitOpsManagerOf(live, "f:"+annotation); manager != "" {
			found = append(found, fmt.Sprintf("%s wrote the annotation %s of %s and will write it again; change it in Git instead", manager, annotation, ReferenceOf(live)))
		}
	}
	if manager := GitOpsOwner(live); c.endsSuspend && manager != "" {
		found = append(found, fmt.Sprintf("%s wrote the spec of %s and will write spec.suspend again; change it in Git instead", manager, ReferenceOf(live)))
	}
	return found
}

// suspensions name further settings that suspend the object of a request.
func suspensions(live, after *unstructured.Unstructured, request Request) []string {
	suspended := StatusOf(live).Condition(apimeta.ConditionSuspended)
	if suspended == nil {
		return nil
	}
	switch {
	case request.Action == Resume && suspended.Reason == apimeta.ReasonSuspendedByNamespace:
		return []string{fmt.Sprintf("%s stays suspended by its Namespace; kubectl annotate namespace %s %s- resumes all objects in it",
			ReferenceOf(live), live.GetNamespace(), apimeta.AnnotationPaused)}
	case request.Action == Resume && suspended.Reason == apimeta.ReasonSuspendedByHandler:
		return []string{fmt.Sprintf("%s stays suspended by the operator's program", ReferenceOf(live))}
	case request.Action == Reconcile || request.Action == Retry:
		return []string{fmt.Sprintf("%s is suspended, and nothing of it is changed before kubectl demoapp resume %s", ReferenceOf(after), argument(after))}
	default:
		return nil
	}
}

// argument returns an object as an argument on the command line.
func argument(object *unstructured.Unstructured) string {
	return strings.ToLower(object.GetKind()) + "/" + object.GetName()
}

// IsSuspendedByAnnotation reports whether an object itself has the annotation that suspends it.
func IsSuspendedByAnnotation(object *unstructured.Unstructured) bool {
	paused, err := strconv.ParseBool(object.GetAnnotations()[apimeta.AnnotationPaused])
	return err == nil && paused
}

// patch applies a JSON merge patch to an object that was read before, and returns the object after
// it.
func (c *Cluster) patch(ctx context.Context, live *unstructured.Unstructured, patch map[string]any, dryRun string) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	switch dryRun {
	case "":
	case "server":
		options.DryRun = []string{metav1.DryRunAll}
	case "client":
		return patched(live, content)
	default:
		return nil, errors.New("a dry run is client or server")
	}
	resource, err := c.resourceOf(live)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, live.GetName(), types.MergePatchType, content, options)
}

// patched returns an object after a JSON merge patch, without asking the API server.
func patched(live *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	whole, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if whole, err = jsonpatch.MergePatch(whole, patch); err != nil {
		return nil, err
	}
	after := &unstructured.Unstructured{}
	err = after.UnmarshalJSON(whole)
	return after, err
}

// sameContent reports whether two versions of an object have the same annotations and spec.
func sameContent(a, b *unstructured.Unstructured) bool {
	return maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && reflect.DeepEqual(a.Object["spec"], b.Object["spec"])
}
