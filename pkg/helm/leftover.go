// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/message"
)

// Leftover is an object that an uninstall left behind.
type Leftover struct {
	Object ObjectReference
	// Reason says why the object is left; empty if it is being deleted and nothing is known to hold
	// it.
	Reason string
}

// String names the object and the reason: "ConfigMap default/web (its resource policy keeps it)".
func (l Leftover) String() string {
	if l.Reason == "" {
		return l.Object.String()
	}
	return l.Object.String() + " (" + l.Reason + ")"
}

// maxEnumerated is the number of names that a message has.
const maxEnumerated = 5

// Enumerate names objects in a message of bounded length.
func Enumerate(leftovers []Leftover) string {
	names := make([]string, 0, len(leftovers))
	for _, leftover := range leftovers {
		names = append(names, leftover.String())
	}
	return enumerate(names)
}

// enumerate joins names for a message.
func enumerate(names []string) string {
	short := make([]string, 0, len(names))
	for _, name := range names {
		short = append(short, fmt.Sprintf("%.150s", name))
	}
	return message.List(short, maxEnumerated)
}

// leftByRelease has the objects left by uninstalls that still wait for objects. A process that did
// not begin an uninstall does not know it.
type leftByRelease struct {
	mu       sync.Mutex
	releases map[cache.ObjectName][]Leftover
}

func (l *leftByRelease) set(release cache.ObjectName, left []Leftover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(left) == 0 {
		delete(l.releases, release)
		return
	}
	if l.releases == nil {
		l.releases = map[cache.ObjectName][]Leftover{}
	}
	l.releases[release] = left
}

func (l *leftByRelease) of(release cache.ObjectName) []Leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.releases[release]
}

// leave notes an object that the operation leaves behind. A later reason replaces an earlier one.
func (o *operation) leave(object ObjectReference, reason string) {
	left := Leftover{Object: object, Reason: reason}
	if slices.Contains(o.leftovers, left) {
		return
	}
	o.gone(object.Identity())
	o.leftovers = append(o.leftovers, left)
	o.logger.Info("Left an object behind", slog.String("target", object.String()), slog.String("why", reason))
}

// leaveHeld notes an object that finalizers hold after its deletion. Kubernetes removes its own
// finalizers, for example when no pod uses a volume any more.
func (o *operation) leaveHeld(object ObjectReference, finalizers []string) {
	if o.awaitsRemoval {
		return // The caller waits for it.
	}
	if reason := waitsFor(slices.DeleteFunc(slices.Clone(finalizers), isOfKubernetes)); reason != "" {
		o.leave(object, reason)
	}
}

// gone drops the note about an object.
func (o *operation) gone(object Identity) {
	o.leftovers = slices.DeleteFunc(o.leftovers, func(l Leftover) bool { return l.Object.Identity() == object })
}

// waitsFor says which finalizers hold an object; empty for none.
func waitsFor(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "its deletion waits for the finalizers " + enumerate(finalizers)
}

// isOfKubernetes reports whether a finalizer is one of Kubernetes' own.
func isOfKubernetes(finalizer string) bool {
	domain, _, qualified := strings.Cut(finalizer, "/")
	return !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// leaveExcluded notes the objects that a manifest was built without.
func (o *operation) leaveExcluded(err error) {
	var all *refusals
	if errors.As(err, &all) {
		for _, err := range all.errs {
			o.leaveExcluded(err)
		}
		return
	}
	var (
		outside  *OutOfScopeError
		unserved *unservedError
	)
	switch {
	case errors.As(err, &outside):
		o.leave(outside.Object, notAllowed)
	case errors.As(err, &unserved):
		o.leave(unserved.object, notServed)
	}
}

// leaveOthers notes objects that Helm's uninstall of a revision does not remove: objects that hooks
// created, and the volumes of StatefulSets. It removes the hooks that are known to be hooks of the
// owner's release.
func (o *operation) leaveOthers(rls *releasev1.Release) {
	for _, hook := range rls.Hooks {
		if slices.Contains(hook.DeletePolicies, releasev1.HookSucceeded) && hook.LastRun.Phase != releasev1.HookPhaseFailed {
			continue
		}
		list, err := o.former(hook.Manifest)
		if err != nil {
			continue // Nothing more is known of a hook that cannot be read.
		}
		for _, info := range list {
			live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
			switch {
			case err != nil || !o.isOwnHook(live),
				manifest.IsKept(live) && o.disown(info) == nil, // It notes the object.
				o.goesWithOwner(info, live) && o.removeHook(info, metav1.DeletePropagationBackground) == nil:
			default:
				o.leave(reference(info), "a hook created it")
			}
		}
	}
	list, err := o.former(rls.Manifest)
	if err != nil {
		return
	}
	for _, info := range list {
		o.leaveVolumes(info)
	}
}

// goesWithOwner reports whether a hook in the release's namespace belongs to the owner: it has the
// owner's reference, or this uninstall created it. Without an owner, hooks stay, as with Helm.
func (o *operation) goesWithOwner(info *resource.Info, live *unstructured.Unstructured) bool {
	if o.ownerID.UID == "" || o.isOutside(live) || manifest.IsKept(live) {
		return false
	}
	return o.isController(live) || o.hooks[identityOf(info)] == live.GetUID()
}

// leaveVolumes notes the PersistentVolumeClaims that Kubernetes keeps after it has deleted their
// StatefulSet.
func (o *operation) leaveVolumes(info *resource.Info) {
	var set appsv1.StatefulSet
	object, err := content(info)
	if err != nil || object.GroupVersionKind().GroupKind() != statefulSetKind ||
		runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set) != nil {
		return
	}
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil && policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return
	}
	const reason = "a volume of a StatefulSet, which Kubernetes keeps"
	claims := o.engine.metadata.Resource(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")).Namespace(info.Namespace)
	for _, template := range set.Spec.VolumeClaimTemplates {
		prefix := template.Name + "-" + set.Name + "-"
		claim := ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: info.Namespace}
		found, err := claims.List(o.ctx, metav1.ListOptions{Limit: maxListedClaims})
		if err != nil {
			claim.Name = prefix + "*" // Without the permission, the number is not known.
			o.leave(claim, reason)
			continue
		}
		for i := range found.Items {
			ordinal, ok := strings.CutPrefix(found.Items[i].Name, prefix)
			if _, err := strconv.Atoi(ordinal); ok && err == nil {
				claim.Name = found.Items[i].Name
				o.leave(claim, reason)
			}
		}
	}
}

// leaveCRDs notes the CRDs under crds/ of the chart whose kinds are served. The CRDs of a disabled
// dependency may not exist.
func (o *operation) leaveCRDs(chart *chart.Chart) {
	if chart == nil {
		return
	}
	parsed, err := chart.Parse()
	if err != nil {
		return
	}
	for _, crd := range parsed.CRDObjects() {
		list, err := o.former(string(crd.File.Data))
		if err != nil {
			continue
		}
		for _, info := range list {
			object, err := content(info)
			if err != nil {
				continue
			}
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			if served, _ := o.engine.mapper.Serves(schema.GroupKind{Group: group, Kind: kind}); served {
				o.leave(reference(info), "it is under crds/ of the chart")
			}
		}
	}
}

var statefulSetKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}

// maxListedClaims bounds the PersistentVolumeClaims of a namespace among which the volumes of a
// release are searched.
const maxListedClaims = 500

// Reasons of leftovers.
const (
	notAllowed = "the release may not have objects there"
	notServed  = "its kind is not served, so it cannot be found"
)
