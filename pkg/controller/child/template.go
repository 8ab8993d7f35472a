// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/shutdown"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// The template of a child is the part of it that decides which pods run. A child keeps the template
// that the operator applied until a change of its owner changes the template, or until the owner has its
// turn in the rollout: a newer operator desires other templates for all owners at once.

// templatePath returns the path of the template of the children of a built-in kind; nil if no pods
// restart with a change. The pods of a CronJob end by themselves.
func templatePath(kind schema.GroupVersionKind) []string {
	if kind.Group == appsv1.GroupName {
		return []string{"spec", "template"}
	}
	return nil
}

// KeepUntilChange returns a copy of the kind whose children keep the fields at the path until a change of
// their owner changes them. The rollout does not change them. why is the reason for messages. The fields
// decide about a running database, for example the spec of a PostgreSQL. StatefulSets keep their pod
// template without this call.
func (k ManagedKind) KeepUntilChange(why string, path ...string) ManagedKind {
	k.template, k.awaits = path, why
	return k
}

// parts are the digests of the two parts of a child with a template.
type parts struct {
	path []string
	// free are the keys below the path that are no part of the template.
	free []string
	// template and rest are the digests of the template and of the remaining fields. whole is the
	// digest of both, as earlier versions of the operator recorded it.
	template, rest, whole string
	// awaited is the digest of the desired template of a child that keeps another one.
	awaited string
	// lessStrict says that the awaited template is less strict than the applied one.
	lessStrict bool
	// kept says why a child keeps a template until its owner changes, by the digest of the template.
	kept map[string]string
	// isIncomplete says that the object does not have the template, so it must not be written.
	isIncomplete bool
}

// templateIn returns the template in an object, without the free keys.
func (p parts) templateIn(object map[string]any) (template any, found bool, err error) {
	template, found, err = unstructured.NestedFieldNoCopy(object, p.path...)
	if fields, ok := template.(map[string]any); ok && len(p.free) > 0 {
		fields = maps.Clone(fields)
		for _, key := range p.free {
			delete(fields, key)
		}
		template = fields
	}
	return template, found, err
}

// replace replaces the template in an object. A nil template removes it.
func (p parts) replace(object map[string]any, template any) error {
	former, _, err := unstructured.NestedMap(object, p.path...)
	if fields, ok := template.(map[string]any); len(p.free) > 0 && err == nil && (ok || template == nil) {
		replaced := maps.Clone(fields)
		if replaced == nil {
			replaced = map[string]any{}
		}
		for _, key := range p.free {
			if value, has := former[key]; has {
				replaced[key] = value
			}
		}
		template = replaced
	}
	if template == nil {
		unstructured.RemoveNestedField(object, p.path...)
		return nil
	}
	return unstructured.SetNestedField(object, template, p.path...)
}

// split separates the template of a child from the rest. Its digest then follows from both digests.
func (d desiredChild) split(kind ManagedKind) (desiredChild, error) {
	split := parts{path: kind.template, whole: d.digest}
	if d.with != nil {
		split.path, split.free = d.with.path, d.with.free
	}
	template, found, err := split.templateIn(d.object.Object)
	if len(split.path) == 0 || d.once || !found || err != nil {
		return d, err
	}
	rest := d.object.DeepCopy()
	if err := split.replace(rest.Object, nil); err != nil {
		return d, err
	}
	if split.template, err = digestJSON(template); err != nil {
		return d, err
	}
	if split.rest, err = digestJSON(rest.Object); err != nil {
		return d, err
	}
	d.parts = split
	return d.keeping(split.template), nil
}

// withKept adds the templates that the child keeps until a change of the owner.
func (p *pass) withKept(d desiredChild) (desiredChild, error) {
	if d.template == "" || d.gvk.Group != appsv1.GroupName {
		return d, nil
	}
	d.kept = map[string]string{}
	if err := d.keepAbrupt(d.object, onlyShutdown); err != nil || d.was == nil {
		return d, err
	}
	was, err := prepare(p.owner, p.set.owner, d.was)
	if err != nil {
		return d, err
	}
	if was, err = was.split(ManagedKind{template: d.path}); err != nil || was.template == d.template {
		return d, err
	}
	d.kept[was.template] = lessStrictNow
	return d, d.keepAbrupt(was.object, lessStrictNow)
}

// keepAbrupt adds the template of an object without the fields that let pods end after their requests,
// see package shutdown.
func (d desiredChild) keepAbrupt(object *unstructured.Unstructured, why string) error {
	template, _, err := unstructured.NestedMap(object.Object, d.path...)
	if err != nil {
		return err
	}
	without, found := shutdown.Without(template)
	if !found {
		return nil
	}
	digest, err := digestJSON(without)
	d.kept[digest] = why
	return err
}

// keeping returns the child with another template, of which only the digest is known.
func (d desiredChild) keeping(template string) desiredChild {
	sum := sha256.Sum256([]byte(d.rest + template))
	if template != d.template {
		d.awaited = d.template
	}
	d.template, d.digest = template, hex.EncodeToString(sum[:16])
	return d
}

// splitRecord returns a record with the digests of the child's parts. Earlier versions of the operator
// recorded the digest of the whole child.
func splitRecord(record childv1alpha1.AppliedChild, desired desiredChild) childv1alpha1.AppliedChild {
	if record.Template == "" && record.Digest == desired.whole {
		record.Template, record.Digest = desired.template, desired.digest
	}
	return record
}

// keepsTemplate reports whether a child keeps the template that the operator applied: the desired
// template differs, and no change of the owner made it differ.
func keepsTemplate(owned ownership, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed, changed bool) bool {
	return desired.template != "" && desired.template != record.Template && !changed &&
		got != nil && got.DeletionTimestamp == nil && owned == ownerSelf && (record.UID == "" || record.UID == string(got.UID))
}

// version identifies the last decision of a user about an owner: the generation, and the annotation
// that applies a waiting change.
func version(owner metav1.Object) string {
	text := strconv.FormatInt(owner.GetGeneration(), 10)
	if force := owner.GetAnnotations()[apimeta.AnnotationForceAt]; force != "" {
		sum := sha256.Sum256([]byte(force))
		text += "+" + hex.EncodeToString(sum[:8])
	}
	return text
}

// changesTemplate reports whether a change of an owner, whose version was the one in the record, changes the
// template of a child. It does not if the desired template already waits, or if the
// child runs with what this owner desires in the circumstances that KeepUntilChange names.
func changesTemplate(owner metav1.Object, desired desiredChild, record childv1alpha1.AppliedChild) bool {
	is := version(owner)
	_, force, _ := strings.Cut(is, "+")
	_, forced, _ := strings.Cut(record.Owner, "+")
	switch {
	case record.Owner == is:
		return false
	case force != "" && force != forced:
		return true
	default:
		return desired.template != record.Awaited && desired.kept[record.Template] == ""
	}
}

// hasChanged reports whether a change of the owner has changed the template of a child since the child
// got it. Earlier versions of the operator did not record when. The owner then has changed if no pass has
// reported its generation.
func (p *pass) hasChanged(desired desiredChild, record childv1alpha1.AppliedChild) bool {
	if desired.with != nil {
		return !p.podsStay(desired.with.pods)
	}
	if record.Owner != "" {
		return changesTemplate(p.owner, desired, record)
	}
	ready := meta.FindStatusCondition(*p.conditions, apimeta.ConditionReady)
	return ready == nil || ready.ObservedGeneration != p.owner.GetGeneration() ||
		ready.Reason == apimeta.ReasonSuspendedByAnnotation || ready.Reason == apimeta.ReasonSuspendedByNamespace
}

// podsStay reports whether a child of the owner keeps its template in this pass, so that its pods do not
// restart. The kind of the child awaits a change of the owner.
func (p *pass) podsStay(child id) bool {
	desired, found := p.children[child]
	if !found {
		return false
	}
	kind := p.set.kinds[desired.gvk]
	got := kind.observed(p.owner.GetNamespace(), child.name)
	desired, err := desired.split(kind)
	if err == nil {
		desired, err = p.withKept(desired)
	}
	if err != nil {
		return true // The error of the child itself is reported.
	}
	applied, _ := p.record(child)
	record := splitRecord(applied, desired)
	return desired.isRetained(got) && desired.template != record.Template || p.keepsTemplate(desired, record, got)
}

// withTemplate returns the child with the template that it gets in this pass: the desired template,
// or its current template. It sends a request only if the child has to be written, or if the
// desired template waits for its turn.
func (p *pass) withTemplate(
	ctx context.Context, kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed,
) (desiredChild, error) {
	kept := desired.keeping(record.Template)
	kept.lessStrict = record.LessStrict && record.Awaited == desired.template
	why := desired.awaitsChange(kind, record.Template)
	if why == "" && kept.lessStrict {
		why = lessStrictNow
	}
	if why != "" && p.decide(kept, record, got) == actionNone {
		p.awaitChange(desired.id, why)
		kept.isIncomplete = true
		return kept, nil
	}
	live, err := kind.client(p.owner.GetNamespace()).Get(ctx, desired.name)
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != got.UID {
		return desired, nil // The write finds out.
	}
	if err != nil {
		return desired, writeError(desired.id, err)
	}
	whole, err := toUnstructured(live, desired.gvk)
	if err != nil {
		return desired, err
	}
	applied, digest, err := appliedTemplate(whole, desired.parts)
	switch {
	case err != nil:
		return desired, err
	case digest == desired.template, digest == "":
		return desired, nil
	case digest != record.Template && !ssa.Matches(record.Fingerprint, got.trace.Fingerprint):
		// Another client may have changed the template, or reset managedFields. Nothing proves that the
		// operator applied the live template, so it must not stay.
		return desired, nil
	}
	if record.Template == "" {
		kept = desired.keeping(digest)
	}
	if why := desired.awaitsChange(kind, digest); why != "" {
		p.awaitChange(desired.id, why)
	} else if kept.lessStrict, err = weakensRunning(desired, whole, applied); err != nil {
		return desired, err
	} else if kept.lessStrict {
		p.awaitChange(desired.id, lessStrictNow)
	} else if p.hasTurn(ctx, desired.id) {
		return desired, nil
	}
	kept.object = desired.object.DeepCopy()
	return kept, desired.replace(kept.object.Object, applied)
}

// appliedTemplate returns the template that an object has from the operator, and its digest. The
// digest is empty without a template.
func appliedTemplate(live *unstructured.Unstructured, of parts) (template any, digest string, _ error) {
	applied, err := ssa.Extract(live, FieldManager)
	if err != nil {
		return nil, "", err
	}
	template, found, err := of.templateIn(applied)
	if err != nil || !found {
		return nil, "", err
	}
	digest, err = digestJSON(template)
	return template, digest, err
}

// weakensRunning reports whether the desired template is less strict than the one of a running workload.
// applied is the template that the operator applied. The live template may have less strict fields of
// other clients.
func weakensRunning(desired desiredChild, live *unstructured.Unstructured, applied any) (bool, error) {
	running, _, err := unstructured.NestedFieldNoCopy(live.Object, desired.path...)
	if err != nil {
		return false, err
	}
	newer, _, err := unstructured.NestedFieldNoCopy(desired.object.Object, desired.path...)
	if err != nil {
		return false, err
	}
	return weakens(newer, running, applied)
}

const (
	// DatabaseRuns says why a database keeps its template.
	DatabaseRuns = "only a user restarts a database"
	// podsStay says why a child keeps a part that running pods read.
	podsStay = "its pods keep their template"
	// onlyShutdown says why pods keep a template that ends them at once. Their end would interrupt the very
	// requests that the newer template spares, so it comes with a change that ends the pods anyway.
	onlyShutdown = "it differs only in how the pods end"
	// lessStrictNow says why pods keep their privileges.
	lessStrictNow = "its security context is less strict"
)

// awaitsChange returns why the template of a child does not come with a turn in the rollout; "" if it
// does. applied is the digest of the template that the operator applied.
func (d desiredChild) awaitsChange(kind ManagedKind, applied string) string {
	if d.with != nil {
		return podsStay
	}
	if kind.awaits != "" {
		return kind.awaits
	}
	return d.kept[applied]
}

// awaitChange reports that the template of a child waits for a change of the owner.
func (p *pass) awaitChange(child id, why string) {
	p.state.Held = append(p.state.Held, child.childName())
	p.held = append(p.held, fmt.Sprintf("%s %q, because %s", child.kind, child.name, why))
}

// hasTurn asks once in a pass whether the owner has its turn in the rollout.
func (p *pass) hasTurn(ctx context.Context, child id) bool {
	if p.set.fleet == nil {
		return false
	}
	if !p.asked {
		p.set.fleet.Prepare(ctx)
		p.answer, p.asked = p.set.fleet.Ask(cache.MetaObjectToName(p.owner), p.owner.GetCreationTimestamp().Time), true
	}
	if p.answer != rollout.Granted {
		p.queued = append(p.queued, fmt.Sprintf("%s %q", child.kind, child.name))
	}
	return p.answer == rollout.Granted
}

// toUnstructured converts an object of a typed client.
func toUnstructured(object metav1.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	whole := &unstructured.Unstructured{Object: content}
	whole.SetGroupVersionKind(kind)
	return whole, nil
}

// weakens reports whether a newer pod template gives pods more privileges than one of the templates
// before it.
func weakens(newer any, before ...any) (bool, error) {
	spec, err := podSpecOf(newer)
	if err != nil {
		return false, err
	}
	for _, template := range before {
		was, err := podSpecOf(template)
		if err != nil {
			return false, err
		}
		if lessStrict(was, spec) {
			return true, nil
		}
	}
	return false, nil
}

// podSpecOf returns the spec of a pod template.
func podSpecOf(template any) (corev1.PodSpec, error) {
	fields, ok := template.(map[string]any)
	if !ok {
		return corev1.PodSpec{}, fmt.Errorf("unexpected pod template %T", template)
	}
	var converted corev1.PodTemplateSpec
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &converted)
	return converted.Spec, err
}
