// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// ReleaseKind is a kind whose custom resources each have one release of a chart. Fields are
// optional unless their comment says otherwise.
type ReleaseKind struct {
	// GroupVersionKind is the kind of the custom resources. Required.
	GroupVersionKind schema.GroupVersionKind
	// Chart is installed for each custom resource. Required.
	Chart *chart.Chart
	// Overrides are values by their path, as in "helm install --set path=value". They take
	// precedence over the values of the custom resource, and count as secret.
	Overrides map[string]string
	// OverrideTexts reads the values of Overrides as texts, as in "helm install --set-string".
	// operator-sdk's helm-operator does so, and helm-operator-plugins does not.
	OverrideTexts bool
	// Translator returns the values of a custom resource. The default is its spec. An error is
	// retried, unless it is wrapped by controller.Terminal, because only a change can resolve it.
	// It may neither block for long nor change the object.
	Translator func(ctx context.Context, object *unstructured.Unstructured) (map[string]any, error)
	// PreHooks run in this order before each reconcile, except for the deletion and while
	// the custom resource is paused. An error ends the reconcile, and is retried.
	PreHooks []PreHook
	// PostHooks run in this order after each reconcile that left the release deployed as
	// desired, except while the custom resource is paused. An error is retried.
	PostHooks []PostHook
	// Annotations are further annotations that change the release.
	Annotations []Annotation
	// PauseAnnotation pauses a custom resource while its value is true. The default is
	// [watchesv1alpha1.AnnotationPaused].
	PauseAnnotation string
	// Paused reports whether a custom resource is paused, in addition to PauseAnnotation. It is
	// called at the start of each reconcile. An error ends the reconcile, and is retried.
	Paused func(ctx context.Context, object *unstructured.Unstructured) (bool, error)
	// Selector selects custom resources by their labels. The default selects all.
	Selector labels.Selector
	// ReconcilePeriod is the time between two periodic reconciles, plus or minus 10%. The default
	// is the operator's period; see [Never].
	ReconcilePeriod time.Duration
	// MaxConcurrentReconciles is the number of custom resources that are reconciled at a time. The
	// default is the operator's number of workers.
	MaxConcurrentReconciles int
	// IgnoreDependents says that a change of an object of a release starts no reconcile.
	// Drift is then corrected by the next periodic reconcile.
	IgnoreDependents bool
	// ReleaseName returns the name of the release. The default is the name of the custom
	// resource. It must depend on nothing that changes. The object has its metadata only if it
	// is beyond the limits of values. The same holds for Paused.
	ReleaseName func(object *unstructured.Unstructured) (string, error)
	// ReleaseNamespace is the namespace of the releases of a cluster-scoped kind. Required for such
	// kinds, and refused for any other kind.
	ReleaseNamespace string
	// Scope limits the objects of a release. The default is [helm.ScopeCluster].
	Scope helm.Scope
	// ServiceAccountName is a service account in the namespace of each release. All requests
	// for the release are sent as this account. The default is the operator's own account.
	ServiceAccountName string
	// Takeover takes over releases of the same chart that no operator has marked with a custom
	// resource, such as releases of the helm command. The default takes over releases of the
	// upstream operators only. A custom resource can adopt other releases by its annotation
	// adopt-release, if Takeover is set or their newest record has the label [record.AdoptLabel].
	Takeover bool
	// FieldValidation is [helm.Release.FieldValidation].
	FieldValidation string
	// Policy is the release policy of all custom resources. Its Suspend is ignored.
	Policy releasev1alpha1.ReleasePolicy
	// Rollout bounds how many custom resources at a time get another chart, other overrides or
	// other values of a translator, and how many may fail with them. For a limit of 0,
	// [rollout.DefaultLimits] has the value, and a negative limit means no limit. A change of the
	// custom resource itself does not wait.
	Rollout rollout.Limits
	// StatusManifest writes the manifest of the release to status.deployedRelease.manifest,
	// as the upstream operators do. The manifest may contain Secrets.
	StatusManifest bool
	// Waits says why the values of custom resources are not known; "" if they are. Meanwhile,
	// releases stay as they are, their drift is corrected, and the custom resources report it.
	Waits string
	// Watches are further informers whose events start reconciles.
	Watches []Watch
	// Revision identifies the configuration of the kind. A change restarts the kind.
	Revision string

	// readsLabels says that the values may depend on the labels of a custom resource.
	readsLabels bool
}

// Never is a ReconcilePeriod without periodic reconciles.
const Never = 10 * 365 * 24 * time.Hour

// PreHook runs before a reconcile. It may change the values, but not the object.
type PreHook func(ctx context.Context, object *unstructured.Unstructured, values map[string]any, logger klog.Logger) error

// PostHook runs after a reconcile. The release is read-only.
type PostHook func(
	ctx context.Context, object *unstructured.Unstructured, release releasev1alpha1.DeployedRelease, values map[string]any, logger klog.Logger,
) error

// Annotation is an annotation of custom resources that changes the release.
type Annotation struct {
	// Name is the complete name of the annotation.
	Name string
	// Apply changes the release by the value of the annotation. It must not block. Chart,
	// owner, name and namespace must stay. After an error, the annotation is ignored, and an
	// event reports the error.
	Apply func(value string, release *helm.Release) error
}

// Watch is an informer, and a function from its objects to custom resources. The owner of
// the informer runs it.
type Watch struct {
	// Name names the informer in errors.
	Name     string
	Informer cache.SharedIndexInformer
	// Keys returns the custom resources to reconcile after an event about the object. On an
	// update, it is called with the old and the new version. It must not block.
	Keys func(object metav1.Object) []cache.ObjectName
}

// validate returns an error that names all invalid fields of the kind.
func (k ReleaseKind) validate() error {
	var errs []error
	if k.GroupVersionKind.Version == "" || k.GroupVersionKind.Kind == "" || k.Chart == nil {
		errs = append(errs, errors.New("version, kind and chart are required"))
	}
	if _, _, err := k.override(nil); err != nil {
		errs = append(errs, fmt.Errorf("overrides: %w", err))
	}
	names := (&ReleaseKind{PauseAnnotation: k.PauseAnnotation}).annotations()
	for _, annotation := range k.Annotations {
		if annotation.Name == "" || annotation.Apply == nil || slices.Contains(names, annotation.Name) {
			errs = append(errs, fmt.Errorf("annotation %q: needs a function, and a name that no other annotation has", annotation.Name))
		}
		names = append(names, annotation.Name)
	}
	for _, watch := range k.Watches {
		if watch.Informer == nil || watch.Keys == nil {
			errs = append(errs, fmt.Errorf("watch %q: informer and keys are required", watch.Name))
		}
	}
	return errors.Join(errs...)
}

// override returns values with the overrides, and the paths of overridden values.
func (k ReleaseKind) override(values map[string]any) (set map[string]any, overridden []string, err error) {
	if k.OverrideTexts {
		return chart.SetTexts(values, k.Overrides)
	}
	return chart.SetValues(values, k.Overrides)
}

// Name is the kind's name in logs and metrics: "<kind>.<version>.<group>" in lower case.
func (k ReleaseKind) Name() string {
	return strings.ToLower(strings.TrimSuffix(k.GroupVersionKind.Kind+"."+k.GroupVersionKind.Version+"."+k.GroupVersionKind.Group, "."))
}

// annotations returns the annotations whose change starts a reconcile.
func (k ReleaseKind) annotations() []string {
	names := []string{
		releasev1alpha1.AnnotationRequestedAt, releasev1alpha1.AnnotationForceAt, releasev1alpha1.AnnotationAdoptRelease,
		watchesv1alpha1.AnnotationInstallDisableHooks, watchesv1alpha1.AnnotationUpgradeDisableHooks,
		watchesv1alpha1.AnnotationUninstallDisableHooks, watchesv1alpha1.AnnotationInstallDescription,
		watchesv1alpha1.AnnotationUpgradeDescription, watchesv1alpha1.AnnotationUninstallDescription,
		watchesv1alpha1.AnnotationUpgradeForce, watchesv1alpha1.AnnotationRollbackForce,
		watchesv1alpha1.AnnotationUninstallWait, watchesv1alpha1.AnnotationReconcilePeriod, k.PauseAnnotation,
		watchesv1alpha1.AnnotationPaused, apimeta.AnnotationPausedReason,
	}
	for _, annotation := range k.Annotations {
		names = append(names, annotation.Name)
	}
	return names
}

// Rules returns the permissions that the operator needs for the kind, apart from those for the
// objects of its chart. The first rules are for a namespace, and the second for the custom
// resources.
func (k ReleaseKind) Rules(resource schema.GroupResource) (inNamespace, ofResource []rbacv1.PolicyRule) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	ofResource = []rbacv1.PolicyRule{
		rule(resource.Group, resource.Resource, "list", "watch", "patch"), rule(resource.Group, resource.Resource+"/status", "patch"),
	}
	inNamespace = []rbacv1.PolicyRule{rule(eventsv1.GroupName, "events", "create", "patch")}
	if k.ServiceAccountName == "" {
		return append(inNamespace, rule("", "secrets", "get", "list", "watch", "create", "update", "delete", "deletecollection")), ofResource
	}
	impersonate := rule("", "serviceaccounts", "impersonate")
	impersonate.ResourceNames = []string{k.ServiceAccountName}
	return append(inNamespace, rule("", "secrets", "list", "watch"), impersonate), ofResource
}
