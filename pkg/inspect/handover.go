// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Handover is a release that changes hands, between an object of the operator and the helm command.
type Handover struct {
	// Namespace and Name identify the release.
	Namespace, Name string
	// Revision is the newest one, Status Helm's word for its state, and Chart its chart, as
	// name@version.
	Revision      int
	Status, Chart string
	// Objects are the objects of the revision.
	Objects []Reference

	record   *corev1.Secret
	recorded *helm.Recorded
	owner    types.UID
}

// HandoverOf reads the release of an object, no matter which client made it. intended is the release
// that watches.yaml makes for the object, or nil. It needs the permission to list Secrets.
func (c *Cluster) HandoverOf(ctx context.Context, object *unstructured.Unstructured, intended *Intended) (*Handover, error) {
	namespace, names := object.GetNamespace(), releaseNames(object)
	if intended != nil {
		namespace, names = intended.Namespace, append([]string{intended.Name}, names...)
	}
	found, err := c.locate(ctx, object, namespace, names)
	if err != nil {
		return nil, err
	}
	if len(found.records) == 0 {
		return nil, fmt.Errorf("%s has no release: %s", ReferenceOf(object), found.missing())
	}
	newest := found.newest()
	recorded, err := helm.ReadRecorded(newest)
	if err != nil {
		return nil, err
	}
	objects, err := recorded.Objects()
	if err != nil {
		return nil, err
	}
	h := &Handover{
		Namespace: found.namespace, Name: found.name, Revision: recorded.Revision, Status: recorded.Status,
		Chart: recorded.Chart + "@" + recorded.ChartVersion, record: newest, recorded: recorded, owner: recorded.Owner.UID,
	}
	for _, object := range objects {
		h.Objects = append(h.Objects, ReferenceOf(object))
	}
	return h, nil
}

// Owned reports whether the release belongs to the object with a UID.
func (h *Handover) Owned(by types.UID) bool { return h.owner == by }

// Operated reports whether the operator made the newest revision. Helm copies labels, so a revision of
// another client may name an owner, too.
func (h *Handover) Operated() bool { return h.recorded.Own }

// Adopt asks the operator to take a release of another client over for an object: by an annotation
// of the object, and by a label of the newest record, which kinds of watches.yaml need as consent.
// A user who may not change the record gets a warning. Of the request, it reads At and DryRun.
func (c *Cluster) Adopt(ctx context.Context, object *unstructured.Unstructured, h *Handover, request Request) (Outcome, error) {
	var warnings []string
	err := c.labelRecord(ctx, h, map[string]any{record.AdoptLabel: "true"}, request.DryRun)
	if apierrors.IsForbidden(err) {
		warnings = append(warnings, fmt.Sprintf("the record is not labeled, so only a DemoApp, or a kind with takeover: true in watches.yaml, is taken over: %v", err))
	} else if err != nil {
		return Outcome{}, err
	}
	// An earlier refusal is retried at once.
	at := request.At.UTC().Format(time.RFC3339Nano)
	change := change{annotations: map[string]any{releasev1alpha1.AnnotationAdoptRelease: "true", releasev1alpha1.AnnotationRequestedAt: at}}
	after, err := c.patch(ctx, object, change.patch(object), request.DryRun)
	return Outcome{Object: after, Changed: true, Handled: at, Warnings: append(warnings, change.warnings(object)...)}, err
}

// LetGo marks a release as no longer owned by the object, for [Cluster.DeleteOrphaned]. From then
// on, the operator changes nothing of the release. [Cluster.AwaitLetGo] waits until the status says so.
func (c *Cluster) LetGo(ctx context.Context, object *unstructured.Unstructured, h *Handover) error {
	if !h.Owned(object.GetUID()) && h.owner != record.Released {
		return fmt.Errorf("release %s does not belong to %s", h.Name, ReferenceOf(object))
	}
	withdrawn := change{annotations: map[string]any{releasev1alpha1.AnnotationAdoptRelease: nil}}
	if _, err := c.patch(ctx, object, withdrawn.patch(object), ""); err != nil {
		return err
	}
	return c.labelRecord(ctx, h, map[string]any{record.OwnerLabel: record.Released, record.OwnerKindLabel: nil, record.OwnerGenerationLabel: nil}, "")
}

// AwaitLetGo returns when the operator has let the release of an object go, see [Cluster.LetGo].
func (c *Cluster) AwaitLetGo(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	what := Followed{Kind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	err := c.FollowObjects(ctx, what, func(object *unstructured.Unstructured, deleted bool) {
		ready := StatusOf(object).Condition(apimeta.ConditionReady)
		if deleted || ready != nil && ready.Reason == apimeta.ReasonOwnershipConflict {
			stop(errLetGo)
		}
	})
	if errors.Is(err, errLetGo) {
		return nil
	}
	return err
}

var errLetGo = errors.New("the operator has let the release go")

// DeleteOrphaned deletes an object whose release was let go, and keeps all of its objects.
func (c *Cluster) DeleteOrphaned(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resourceOf(object)
	if err != nil {
		return err
	}
	uid, orphan := object.GetUID(), metav1.DeletePropagationOrphan
	return resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &orphan,
	})
}

// labelRecord changes labels of the newest record, unless the record has changed since it was read.
func (c *Cluster) labelRecord(ctx context.Context, h *Handover, changes map[string]any, dryRun string) error {
	if dryRun == "client" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": string(h.record.UID), "resourceVersion": h.record.ResourceVersion, "labels": changes,
	}})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: FieldManager}
	if dryRun != "" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = c.Kubernetes.CoreV1().Secrets(h.Namespace).Patch(ctx, h.record.Name, types.MergePatchType, patch, options)
	return err
}
