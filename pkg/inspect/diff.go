// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Differ compares the objects of an owner with their desired state. It changes nothing: it sends
// server-side applies as dry runs, under the field manager of the operator.
type Differ struct {
	*Cluster

	// Functions are the functions of the owner's kind.
	Functions KindFunctions
	// takesOver has the objects of the release of another operator, in a comparison with the result
	// of a takeover; nil otherwise.
	takesOver map[Reference]*unstructured.Unstructured
	// Getter is for the template function lookup of charts.
	Getter genericclioptions.RESTClientGetter
	Mask   Mask
}

// desiredObject is an object that an owner desires.
type desiredObject struct {
	object *unstructured.Unstructured
	// once says that an existing object is not changed.
	once bool
}

// Live compares the live objects of an owner with its desired state: the manifest of the deployed
// revision, or the desired children of the spec.
func (d Differ) Live(ctx context.Context, owner *unstructured.Unstructured) ([]Difference, error) {
	if d.Functions.Children != nil {
		return d.children(ctx, owner)
	}
	deployed, err := d.deployed(ctx, owner)
	if err != nil {
		return nil, err
	}
	objects, err := deployed.Objects()
	if err != nil {
		return nil, err
	}
	d.Mask = d.masking(ctx, owner, deployed).withSecretsOf(objects)
	namespace, _ := deployed.Release()
	return d.compareAll(ctx, owner, plainly(objects), nil, helm.FieldManager, namespace)
}

// Change compares the live objects of an owner with the objects that a change of the owner would
// produce. The first difference is the difference of the owner itself. changed has the new spec,
// and the UID of the owner; an owner that does not exist yet is nil. Errors do not quote secrets of
// changed.
func (d Differ) Change(ctx context.Context, owner, changed *unstructured.Unstructured) ([]Difference, error) {
	found, err := d.change(ctx, owner, changed)
	return found, d.Mask.WithoutSecrets(err, changed)
}

func (d Differ) change(ctx context.Context, owner, changed *unstructured.Unstructured) ([]Difference, error) {
	admitted, err := d.admit(ctx, owner, changed)
	if err != nil {
		return nil, err
	}
	if d.Functions.Children != nil {
		found, err := d.children(ctx, admitted)
		return append([]Difference{d.owner(owner, admitted)}, found...), err
	}
	if owner == nil {
		return nil, fmt.Errorf("%s does not exist, so there is no recorded chart to render; kubectl apply --dry-run=server checks it", ReferenceOf(changed))
	}
	deployed, err := d.deployed(ctx, owner)
	if err != nil {
		return nil, err
	}
	layers, mask, err := d.layers(ctx, admitted, owner, deployed, d.Functions)
	if err != nil {
		return nil, err
	}
	all := merged(layers)
	d.Mask = d.masking(ctx, owner, deployed).withValues(all, mask.Paths)
	before, err := deployed.Objects()
	if err != nil {
		return nil, err
	}
	after, err := deployed.Render(ctx, all, controllerOf(owner), d.Getter)
	if err != nil {
		return nil, err
	}
	d.Mask = d.Mask.withSecretsOf(before).withSecretsOf(after)
	namespace, _ := deployed.Release()
	found, err := d.compareAll(ctx, admitted, plainly(after), before, helm.FieldManager, namespace)
	return append([]Difference{d.owner(owner, admitted)}, found...), err
}

// controllerOf returns the reference with which an owner controls the objects of its release.
func controllerOf(owner *unstructured.Unstructured) metav1.OwnerReference {
	version, kind := owner.GroupVersionKind().ToAPIVersionAndKind()
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}
}

// owner compares an owner before and after a change.
func (d Differ) owner(before, after *unstructured.Unstructured) Difference {
	mask := d.Mask
	for _, path := range d.Mask.Paths {
		mask.Paths = append(mask.Paths, append([]string{"spec"}, path...), append([]string{"spec", "values"}, path...))
	}
	return mask.compare(ReferenceOf(after), before, after)
}

// admit returns the owner as the API server would store it.
func (d Differ) admit(ctx context.Context, owner, changed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := d.resourceOf(changed)
	if err != nil {
		return nil, err
	}
	dryRun := []string{metav1.DryRunAll}
	if owner == nil {
		return resource.Create(ctx, changed, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	}
	var admitted *unstructured.Unstructured
	current := changed.DeepCopy()
	err = whileSpecStays(ctx, resource, owner, changed.GetResourceVersion(), func(version string) (err error) {
		current.SetResourceVersion(version)
		admitted, err = resource.Update(ctx, current, metav1.UpdateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
		return err
	})
	if apierrors.IsForbidden(err) {
		return changed, nil
	}
	return admitted, err
}

// deployed returns the deployed revision of an owner's release.
func (d Differ) deployed(ctx context.Context, owner *unstructured.Unstructured) (*helm.Recorded, error) {
	if StatusOf(owner).Release.DeployedRelease == nil && d.Functions.Fields == nil {
		if _, isPlain, _ := unstructured.NestedMap(owner.Object, "status", "children"); isPlain {
			return nil, fmt.Errorf("this plugin does not have the functions of kind %s, which say what it desires", owner.GetKind())
		}
	}
	records, err := d.Recorded(ctx, owner)
	if err != nil {
		return nil, err
	}
	number := 0
	if release := StatusOf(owner).Release.DeployedRelease; release != nil {
		number = int(release.Revision)
	}
	record, err := revisionOf(records, number)
	if err != nil {
		return nil, err
	}
	if err := verified(owner, record); err != nil {
		return nil, err
	}
	return record, nil
}

// plainly returns objects as desired ones.
func plainly(objects []*unstructured.Unstructured) []desiredObject {
	desired := make([]desiredObject, 0, len(objects))
	for _, object := range objects {
		desired = append(desired, desiredObject{object: object})
	}
	return desired
}

// children compares the desired children of an owner with the live ones.
func (d Differ) children(ctx context.Context, owner *unstructured.Unstructured) ([]Difference, error) {
	rendered, err := d.Functions.Children(owner, ChildrenInput{
		Images: d.images(ctx), EnforcesRestricted: func() bool { return d.enforcesRestricted(ctx, owner.GetNamespace()) },
	})
	if err != nil {
		return nil, err
	}
	var desired []desiredObject
	for _, r := range rendered {
		desired = append(desired, desiredObject{object: r.Object, once: r.Once || r.Retained})
		d.Mask = d.Mask.withSecretsOf([]*unstructured.Unstructured{r.Object})
	}
	kinds, err := d.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	byName, err := d.kindsByName(kinds)
	if err != nil {
		return nil, err
	}
	var before []*unstructured.Unstructured
	for _, applied := range appliedChildren(owner) {
		kind, served := byName[applied.Kind]
		if !served {
			continue // Its objects were deleted with the kind.
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(owner.GetNamespace())
		object.SetName(applied.Name)
		before = append(before, object)
	}
	return d.compareAll(ctx, owner, desired, before, child.FieldManager, owner.GetNamespace())
}

// enforcesRestricted is ChildrenInput.EnforcesRestricted.
func (c *Cluster) enforcesRestricted(ctx context.Context, namespace string) bool {
	found, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	return err != nil || controller.EnforcesRestricted(found)
}

// compareAll compares all desired objects with the live ones. Objects of before that are no longer
// desired would be deleted. The mask knows the secrets of all of them.
func (d Differ) compareAll(
	ctx context.Context, owner *unstructured.Unstructured, desired []desiredObject, before []*unstructured.Unstructured, manager, namespace string,
) ([]Difference, error) {
	var policy releasev1alpha1.ReleasePolicy
	if spec, ok, _ := unstructured.NestedMap(owner.Object, "spec"); ok && d.Functions.Fields != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &policy); err != nil {
			return nil, fmt.Errorf("spec: %w", err)
		}
	}
	rules := release.IgnoreRules(policy)
	seen := map[Reference]bool{}
	for _, next := range desired {
		if err := d.place(next.object, namespace); err != nil {
			return nil, err
		}
		if manager == helm.FieldManager {
			helm.MarkOwner(next.object, namespace, controllerOf(owner))
		}
		seen[ReferenceOf(next.object)] = true
	}
	for _, object := range before {
		if err := d.place(object, namespace); err != nil {
			return nil, err
		}
		if !seen[ReferenceOf(object)] && object.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			desired = append(desired, desiredObject{object: object})
		}
	}
	found := make([]Difference, len(desired))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, next := range desired {
		group.Go(func() (err error) {
			found[i], err = d.compareOne(ctx, next, seen[ReferenceOf(next.object)], rules, manager)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b Difference) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name(), b.Name())) })
	return found, nil
}

// resourceOf returns the client of an object's resource.
func (c *Cluster) resourceOf(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	return c.resource(mapping.Resource, namespaceFor(mapping, object.GetNamespace())), nil
}

// place sets the namespace of an object that has none.
func (d Differ) place(object *unstructured.Unstructured, namespace string) error {
	mapping, err := d.Mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		object.SetNamespace("")
	} else if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	return nil
}

// compareOne compares a live object with its desired version, or with none if it is not desired.
func (d Differ) compareOne(ctx context.Context, next desiredObject, isDesired bool, rules []helm.IgnoreRule, manager string) (Difference, error) {
	reference := ReferenceOf(next.object)
	live, err := d.Get(ctx, reference)
	switch {
	case apierrors.IsForbidden(err):
		return Difference{Reference: reference, Note: err.Error()}, nil
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return Difference{}, err
	}
	switch {
	case live == nil && !isDesired:
		return Difference{Reference: reference}, nil
	case !isDesired:
		return d.Mask.withSecretsOf([]*unstructured.Unstructured{live}).compare(reference, live, nil), nil
	case live != nil && next.once:
		return Difference{Reference: reference}, nil
	}
	object := next.object
	if live != nil {
		object = helm.Sparing(object, live, rules)
	}
	after, note, err := d.dryRun(ctx, object, live, manager)
	if answer := apierrors.APIStatus(nil); d.takesOver != nil && errors.As(err, &answer) {
		return Difference{Reference: reference, Refused: d.Mask.WithoutSecrets(err, object).Error()}, nil
	}
	if err != nil {
		return Difference{}, fmt.Errorf("%s: %w", reference, err)
	}
	if d.takesOver != nil && live != nil && note == "" {
		if live, after, err = d.takenOver(ctx, live, after); err != nil {
			return Difference{}, fmt.Errorf("%s: %w", reference, err)
		}
	}
	mask := d.Mask
	if live != nil {
		mask = mask.withSecretsOf([]*unstructured.Unstructured{live})
	}
	difference := mask.compare(reference, live, after)
	difference.RestartsPods = live != nil && len(helm.PodChanges(live, after)) > 0
	difference.Note = note
	if live != nil && difference.Differs() && d.takesOver == nil {
		difference.Fields = fieldOwners(live, after, manager)
	}
	return difference, nil
}

// dryRun returns an object after a server-side apply that does not happen. If the caller may not
// patch, it returns the live object with the desired fields merged into it, and a note.
func (d Differ) dryRun(ctx context.Context, object, live *unstructured.Unstructured, manager string) (after *unstructured.Unstructured, note string, err error) {
	resource, err := d.resourceOf(object)
	if err != nil {
		return nil, "", err
	}
	data, options, err := ssa.Request(object, manager, ssa.Force, "")
	if err != nil {
		return nil, "", err
	}
	options.DryRun = []string{metav1.DryRunAll}
	after, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, data, options)
	if _, given, _ := unstructured.NestedString(object.Object, "spec", "clusterIP"); err == nil && live == nil && !given {
		// The dry run of a new Service answers with an address that the Service will not get.
		unstructured.RemoveNestedField(after.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(after.Object, "spec", "clusterIPs")
	}
	if !apierrors.IsForbidden(err) {
		return after, "", err
	}
	after = object
	if live != nil {
		after = &unstructured.Unstructured{Object: overlaid(live.DeepCopy().Object, object.Object).(map[string]any)}
	}
	return after, "compared without defaults and removed fields, because a dry run is not allowed: " + err.Error(), nil
}

// overlaid returns a live value with the fields of a desired one. Lists of the same length are
// merged item by item.
func overlaid(live, desired any) any {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return desired
		}
		for key, value := range desired {
			fields[key] = overlaid(fields[key], value)
		}
		return fields
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) != len(desired) {
			return desired
		}
		for i := range desired {
			items[i] = overlaid(items[i], desired[i])
		}
		return items
	default:
		if sameValue(live, desired) {
			return live
		}
		return desired
	}
}

// fieldOwners returns the differing fields of a live object that belong to field managers other
// than the operator.
func fieldOwners(live, after *unstructured.Unstructured, operator string) []FieldOwner {
	var found []FieldOwner
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "status" || entry.Manager == operator || entry.FieldsV1 == nil {
			continue
		}
		owned := fieldpath.NewSet()
		if owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		owned.Leaves().Iterate(func(path fieldpath.Path) {
			before, had := valueAt(live.Object, path)
			value, has := valueAt(after.Object, path)
			if had != has || had && !sameValue(before, value) {
				found = append(found, FieldOwner{Path: path.String(), Manager: entry.Manager})
			}
		})
	}
	slices.SortFunc(found, func(a, b FieldOwner) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Manager, b.Manager))
	})
	return slices.Compact(found)
}

// valueAt returns the value at a path of managedFields.
func valueAt(object any, path fieldpath.Path) (value any, found bool) {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			fields, ok := object.(map[string]any)
			if object, found = fields[*element.FieldName]; !ok || !found {
				return nil, false
			}
		default:
			items, _ := object.([]any)
			at := slices.IndexFunc(items, func(item any) bool { return isItem(element, item) })
			if at < 0 {
				return nil, false
			}
			object = items[at]
		}
	}
	return object, true
}

// isItem reports whether an element of a path names an item of a list.
func isItem(element fieldpath.PathElement, item any) bool {
	if element.Value != nil {
		return sameValue((*element.Value).Unstructured(), item)
	}
	fields, ok := item.(map[string]any)
	if !ok || element.Key == nil {
		return false
	}
	for _, key := range *element.Key {
		if !sameValue(key.Value.Unstructured(), fields[key.Name]) {
			return false
		}
	}
	return true
}
