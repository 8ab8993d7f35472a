// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/refusal"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// claimsManager owns the size of claims, which the StatefulSet's controller creates.
	claimsManager = child.FieldManager + "-volumes"
	// claimPrefix precedes the name of the StatefulSet in the names of claims.
	claimPrefix = "data"
	// maxAnnotation is the maximum size of a cached annotation, in bytes.
	maxAnnotation = 253
	// maxUnused is the maximum number of unused claims that a status or an event lists. maxUsed is the
	// maximum number of used claims that a status lists.
	maxUnused, maxUsed = 16, 16
	// maxResizeError is the maximum size of the cached message of a failed enlargement, in bytes.
	maxResizeError = 400
)

// annotations record the template with which a claim was created. The patterns are the rules of the
// owner's fields. The StorageClass may be empty.
var annotations = map[string]*regexp.Regexp{
	databasev1.AnnotationVersion:      regexp.MustCompile(`^1[2-8]$`),
	databasev1.AnnotationStorage:      regexp.MustCompile(`^0*[1-9][0-9]*Gi$`),
	databasev1.AnnotationStorageClass: regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`),
}

// resizeErrors are the conditions of a claim whose volume could not be enlarged.
var resizeErrors = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// Claims are the volume claims of StatefulSets with the names of their owners.
type Claims struct {
	*child.Labeled[*corev1.PersistentVolumeClaim]

	kube kubernetes.Interface
}

// NewClaims returns the claims with a label whose value is the name of their owner.
func NewClaims(env child.Informers, kube kubernetes.Interface, label string) (*Claims, error) {
	claims, err := child.NewLabeled(env, "PersistentVolumeClaims", label, kube, kube.CoreV1().PersistentVolumeClaims, reduceClaim)
	return &Claims{claims, kube}, err
}

// reduceClaim keeps the fields that Decide reads.
func reduceClaim(whole *corev1.PersistentVolumeClaim, metadata metav1.ObjectMeta) *corev1.PersistentVolumeClaim {
	reduced := &corev1.PersistentVolumeClaim{ObjectMeta: metadata}
	reduced.CreationTimestamp = whole.CreationTimestamp
	reduced.Annotations = map[string]string{}
	for name, rule := range annotations {
		value := whole.Annotations[name]
		if len(value) > maxAnnotation || !rule.MatchString(value) {
			// Other clients may write annotations. Invalid values must not reach the fields of
			// children.
			clear(reduced.Annotations)
			break
		}
		reduced.Annotations[name] = value
	}
	if size, ok := whole.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		reduced.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	reduced.Spec.StorageClassName = whole.Spec.StorageClassName
	reduced.Status.Phase = whole.Status.Phase
	if capacity, ok := whole.Status.Capacity[corev1.ResourceStorage]; ok {
		reduced.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: capacity}
	}
	for _, condition := range whole.Status.Conditions {
		if slices.Contains(resizeErrors, condition.Type) && condition.Status == corev1.ConditionTrue {
			reduced.Status.Conditions = append(reduced.Status.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: condition.Type, Status: condition.Status, Message: message.Line(condition.Message, maxResizeError),
			})
		}
	}
	return reduced
}

// Template has the inputs of the claim template: the major version of the server, the size, and the
// StorageClass, which may be empty. The template of a StatefulSet cannot change, so annotations of
// the claims record these inputs. A recreated owner reads the annotations, too.
type Template struct{ Version, Storage, Class string }

// Desired returns the template of the claims, with these labels.
func (t Template) Desired(labels map[string]string) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithResources(requests(t.Storage))
	if t.Class != "" {
		spec.WithStorageClassName(t.Class)
	}
	return corev1ac.PersistentVolumeClaim(claimPrefix, "").WithLabels(maps.Clone(labels)).WithAnnotations(map[string]string{
		databasev1.AnnotationVersion: t.Version, databasev1.AnnotationStorage: t.Storage, databasev1.AnnotationStorageClass: t.Class,
	}).WithSpec(spec)
}

func requests(size string) *corev1ac.VolumeResourceRequirementsApplyConfiguration {
	return corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: quantity(size)})
}

// quantity parses a size. It returns 0 for an invalid size, which admission refuses.
func quantity(size string) resource.Quantity {
	parsed, err := resource.ParseQuantity(size)
	if err != nil {
		return resource.Quantity{}
	}
	return parsed
}

// Volumes is the decision about the volumes of an owner.
type Volumes struct {
	// Template is the template of the existing claims. Without claims, it is the desired template.
	Template Template
	// Exist means that a volume may have data.
	Exist bool
	// StandbySince is the creation time of the oldest claim of a server other than the first. It is
	// zero without such a claim. A claim that is older than its owner may hold data of a previous
	// owner.
	StandbySince metav1.Time
	// Problem says why the desired template cannot be used. It is nil if there is no problem.
	Problem *Problem

	// resize has the claims whose requested size changes. size is their new size.
	resize []*corev1.PersistentVolumeClaim
	size   string
	// leaving is the name of a claim that is being deleted.
	leaving string
}

// Decide compares a desired template with the claims of an owner.
func (c *Claims) Decide(owner cache.ObjectName, desired Template) Volumes {
	return decide(owner.Name, desired, c.Of(owner))
}

// Unused returns the names of the claims of servers whose ordinal is not below replicas, at most
// maxUnused of them, sorted by ordinal.
func (c *Claims) Unused(owner cache.ObjectName, replicas int32) []string {
	unused := slices.DeleteFunc(c.Of(owner), func(claim *corev1.PersistentVolumeClaim) bool {
		return ordinalOf(owner.Name, claim) < int(replicas) || claim.DeletionTimestamp != nil
	})
	sortByOrdinal(owner.Name, unused)
	var names []string
	for _, claim := range unused[:min(len(unused), maxUnused)] {
		names = append(names, claim.Name)
	}
	return names
}

func sortByOrdinal(owner string, claims []*corev1.PersistentVolumeClaim) {
	slices.SortFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Compare(ordinalOf(owner, a), ordinalOf(owner, b))
	})
}

// Existing returns the claims of a StatefulSet whose name differs from the name of its owner. It
// does not compare them with a template.
func (c *Claims) Existing(owner cache.ObjectName, set string) Volumes {
	return existing(set, c.Of(owner))
}

func existing(set string, claims []*corev1.PersistentVolumeClaim) Volumes {
	var v Volumes
	for _, claim := range claims {
		if ordinalOf(set, claim) < 0 {
			continue
		}
		v.Exist = true
		if claim.DeletionTimestamp != nil {
			v.leaving = claim.Name
		}
	}
	return v
}

func decide(owner string, desired Template, claims []*corev1.PersistentVolumeClaim) Volumes {
	v := Volumes{Template: desired, size: desired.Storage}
	claims = slices.DeleteFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return ordinalOf(owner, c) < 0 })
	sortByOrdinal(owner, claims)
	v.Exist = len(claims) > 0
	for _, claim := range claims {
		if created := claim.CreationTimestamp; ordinalOf(owner, claim) > 0 && (v.StandbySince.IsZero() || created.Before(&v.StandbySince)) {
			v.StandbySince = created
		}
	}
	v.decideSize(quantity(desired.Storage), claims)
	made := slices.IndexFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[databasev1.AnnotationVersion] != "" })
	if made < 0 {
		return v
	}
	notes := claims[made].Annotations
	v.Template = Template{notes[databasev1.AnnotationVersion], notes[databasev1.AnnotationStorage], notes[databasev1.AnnotationStorageClass]}
	switch {
	case v.Template.Version != desired.Version:
		v.Problem = &Problem{databasev1.ReasonVersionChange, fmt.Sprintf(
			"spec.version: the volumes hold data of version %[1]s, on which version %[2]s cannot start: set spec.version to %[1]s, or dump the "+
				"database and restore it into a new one", v.Template.Version, desired.Version)}
	case v.Template.Class != desired.Class && !haveClass(claims, desired.Class) && v.Problem == nil:
		v.Problem = &Problem{databasev1.ReasonStorageClassChange, fmt.Sprintf(
			"spec.storageClassName: the volumes were made with %q, and cannot change: set it to that, or dump the database and restore it "+
				"into a new one", v.Template.Class)}
	}
	return v
}

// haveClass reports whether all claims have a StorageClass. A claim that was made without a class
// has the default class of the cluster.
func haveClass(claims []*corev1.PersistentVolumeClaim, class string) bool {
	return !slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != class
	})
}

// decideSize compares the desired size with the sizes that the claims request. A request that the
// volume does not have yet may decrease, but not to the size of the volume or less: see
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#recovering-from-failure-when-expanding-volumes.
func (v *Volumes) decideSize(size resource.Quantity, claims []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		pending := !capacity.IsZero() && capacity.Cmp(requested) < 0
		bound := claim.Status.Phase == corev1.ClaimBound
		failed := ""
		if len(claim.Status.Conditions) > 0 {
			failed = claim.Status.Conditions[0].Message
		}
		switch {
		case claim.DeletionTimestamp != nil:
			v.leaving = claim.Name
		case requested.Cmp(size) < 0 && bound, requested.Cmp(size) > 0 && pending && capacity.Cmp(size) < 0 && bound:
			v.resize = append(v.resize, claim)
		case v.Problem != nil:
		case requested.Cmp(size) > 0 && pending:
			v.Problem = &Problem{databasev1.ReasonStorageShrinks, fmt.Sprintf(
				"spec.storage: PersistentVolumeClaim %[1]q requests %[2]s, and its volume has %[3]s. A request cannot return to the size of the "+
					"volume: set spec.storage to more than %[3]s", claim.Name, requested.String(), capacity.String())}
		case requested.Cmp(size) > 0:
			v.Problem = &Problem{databasev1.ReasonStorageShrinks, fmt.Sprintf(
				"spec.storage: %s is less than the %s of PersistentVolumeClaim %q, and volumes cannot shrink: set spec.storage to %s or more",
				v.size, requested.String(), claim.Name, requested.String())}
		case failed != "" && pending:
			v.Problem = &Problem{databasev1.ReasonStorageNotExpandable, fmt.Sprintf(
				"spec.storage: the volume of PersistentVolumeClaim %q has %s, and could not be enlarged to %s: %s: remove the cause, or set "+
					"spec.storage to a size between the two", claim.Name, capacity.String(), requested.String(), strings.TrimRight(failed, ".: "))}
		}
	}
}

// ordinalOf returns the ordinal of the server of a claim, or -1 if the claim does not belong to a
// server.
func ordinalOf(owner string, claim *corev1.PersistentVolumeClaim) int {
	text, ok := strings.CutPrefix(claim.Name, claimPrefix+"-"+owner+"-")
	ordinal, err := strconv.Atoi(text)
	if !ok || err != nil || ordinal < 0 || strconv.Itoa(ordinal) != text {
		return -1
	}
	return ordinal
}

// Resize sets the requested size of claims: it enlarges them, or takes back a part of an enlargement
// that has not happened. It returns a problem if the API server refuses the request.
func (c *Claims) Resize(ctx context.Context, v Volumes) (*Problem, error) {
	for _, claim := range v.resize {
		fields := corev1ac.PersistentVolumeClaim(claim.Name, claim.Namespace).
			WithSpec(corev1ac.PersistentVolumeClaimSpec().WithResources(requests(v.size)))
		resized, err := child.ApplyFields(ctx, c.kube.CoreV1().PersistentVolumeClaims(claim.Namespace), claimsManager, claim.UID, fields)
		switch {
		case ssa.IsReplaced(err):
			continue // The event of the new claim starts a pass.
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			refused := &child.RefusedError{Object: child.Named("PersistentVolumeClaim", claim.Name), Err: errors.Unwrap(err)}
			return &Problem{databasev1.ReasonStorageNotExpandable, fmt.Sprintf(
				"spec.storage: %s: %s, or set spec.storage to the size before", refused, advice(refused.Error()))}, nil
		case err != nil:
			return nil, err
		}
		c.Wrote(resized)
	}
	return nil, nil
}

// advice returns the remedy for a refused enlargement of a claim.
func advice(answer string) string {
	switch {
	case refusal.QuotaExceeded.In(answer):
		return "raise the ResourceQuota"
	case refusal.PermissionMissing.In(answer):
		return "allow the operator to patch PersistentVolumeClaims"
	default:
		return "allow expansion in the StorageClass"
	}
}

// Inherit sets the labels that the owner passes on, on the claims of its servers. The claims cannot
// have the labels from the template of the StatefulSet, which cannot change. See
// [child.Labeled.Inherit].
func (c *Claims) Inherit(ctx context.Context, owner metav1.Object, now time.Time, retryAfter func(time.Duration)) error {
	return c.Labeled.Inherit(ctx, owner, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		c.kube.CoreV1().PersistentVolumeClaims(owner.GetNamespace()), func(claim *corev1.PersistentVolumeClaim) bool {
			return ordinalOf(owner.GetName(), claim) >= 0 && metav1.GetControllerOf(claim) == nil
		}, now, retryAfter)
}

// Used returns the claims on which an owner has run: the recorded ones that still exist, and the claims
// of its current servers. servers is 0 if the owner has no StatefulSet. A label alone proves nothing,
// because every client may set it.
func (c *Claims) Used(owner cache.ObjectName, recorded []databasev1.UsedClaim, servers int32) []databasev1.UsedClaim {
	return used(owner.Name, recorded, servers, c.Of(owner))
}

func used(owner string, recorded []databasev1.UsedClaim, servers int32, claims []*corev1.PersistentVolumeClaim) []databasev1.UsedClaim {
	sortByOrdinal(owner, claims)
	var used []databasev1.UsedClaim
	for _, claim := range claims {
		entry, ordinal := databasev1.UsedClaim{Name: claim.Name, UID: string(claim.UID)}, ordinalOf(owner, claim)
		if ordinal >= 0 && (ordinal < int(servers) || slices.Contains(recorded, entry)) && len(used) < maxUsed {
			used = append(used, entry)
		}
	}
	return used
}

// Delete deletes the used claims of an owner. It returns the names of the other claims of its name,
// which stay.
func (c *Claims) Delete(ctx context.Context, owner cache.ObjectName, used []databasev1.UsedClaim) (kept []string, err error) {
	claims := c.Of(owner)
	sortByOrdinal(owner.Name, claims)
	for _, claim := range claims {
		if ordinalOf(owner.Name, claim) < 0 || claim.DeletionTimestamp != nil {
			continue
		}
		if !slices.Contains(used, databasev1.UsedClaim{Name: claim.Name, UID: string(claim.UID)}) {
			kept = append(kept, claim.Name)
			continue
		}
		if err := gone(c.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, bound(claim)), claim.Name); err != nil {
			return nil, fmt.Errorf("delete PersistentVolumeClaim %q: %w", claim.Name, err)
		}
	}
	return kept[:min(len(kept), maxUnused)], nil
}

// bound returns options that delete only the object with this UID.
func bound(object metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.GetUID()))}
}

// gone returns the error of a deletion. It returns nil if the object is already gone.
func gone(err error, name string) error {
	if ssa.IsGone(err, name) || ssa.IsOutdated(err, name) {
		return nil
	}
	return err
}
