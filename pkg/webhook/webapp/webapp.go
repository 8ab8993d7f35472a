// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/webhook"
)

// The paths of the webhooks in artifacts/kinds/webapp/admission/webhook.yaml. The API server calls those of production for
// production namespaces.
const (
	PathValidate           = "/webapps/validate"
	PathValidateProduction = "/webapps/validate/production"
	PathMutate             = "/webapps/mutate"
	PathMutateProduction   = "/webapps/mutate/production"
)

const (
	// maxProductionReplicas is the number of pods that a WebApp in a production namespace may have.
	maxProductionReplicas = 10
	// productionUser is the default user ID in production namespaces.
	productionUser = 1000
)

// defaultLabels are the labels that each WebApp gets unless it has them.
var defaultLabels = map[string]string{"managed-by": "webapp-operator", "version": "v1"}

// requiredLimits are the resources that need a limit in production namespaces, with an example for messages.
var requiredLimits = []struct{ name, example string }{{"cpu", "500m"}, {"memory", "256Mi"}}

// Handlers returns the webhooks by path. The zero list of registries allows all images.
func Handlers(approved registries.List) map[string]webhook.Handler {
	return map[string]webhook.Handler{
		PathValidate: validating(approved, false), PathValidateProduction: validating(approved, true),
		PathMutate: mutating(false), PathMutateProduction: mutating(true),
	}
}

// object is what the rules read of a WebApp.
type object[S any] struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	// Spec is nil if there is none.
	Spec *S `json:"spec"`
}

// mutableSpec is the part of the spec that is mutated. The API server has not validated the other parts yet.
type mutableSpec struct {
	SecurityContext *workloadv1alpha1.SecurityContext `json:"securityContext"`
}

// review is a request with its decoded objects.
type review[S any] struct {
	// old is nil for a new object.
	object, old *object[S]
	// specChanges tells that the spec is new or differs from the old one.
	specChanges bool
}

// read decodes a request. It returns nil if the request is not about a WebApp that is created or updated.
func read[S any](request *admissionv1.AdmissionRequest) (*review[S], error) {
	isWebApp := request.Resource == metav1.GroupVersionResource{
		Group: examplev1.SchemeGroupVersion.Group, Version: examplev1.SchemeGroupVersion.Version, Resource: "webapps",
	}
	switch {
	case !isWebApp:
		return nil, fmt.Errorf("%s is not reviewed here: the rules of the webhook configuration must name webapps of %s only",
			request.Resource.Resource, examplev1.SchemeGroupVersion)
	case request.SubResource != "" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update:
		return nil, nil
	}
	result := &review[S]{specChanges: true}
	var err error
	if result.object, err = decode[S](request.Object.Raw); err != nil || request.Operation == admissionv1.Create {
		return result, err
	}
	if result.old, err = decode[S](request.OldObject.Raw); err != nil {
		return nil, err
	}
	result.specChanges, err = specsDiffer(request.Object.Raw, request.OldObject.Raw)
	return result, err
}

func decode[S any](raw []byte) (*object[S], error) {
	decoded := &object[S]{}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, decoded); err != nil {
		return nil, fmt.Errorf("decoding the WebApp: %w", err)
	}
	return decoded, nil
}

// specsDiffer compares specs as they are written, as the expressions of webhooks and policies do.
func specsDiffer(object, old []byte) (bool, error) {
	var specs [2]struct {
		Spec any `json:"spec"`
	}
	for i, raw := range [][]byte{object, old} {
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &specs[i]); err != nil {
			return false, fmt.Errorf("decoding the WebApp: %w", err)
		}
	}
	return !reflect.DeepEqual(specs[0], specs[1]), nil
}

func validating(approved registries.List, production bool) webhook.Handler {
	return func(request *admissionv1.AdmissionRequest) (webhook.Response, error) {
		review, err := read[examplev1.WebAppSpec](request)
		if err != nil || review == nil || !review.specChanges || review.object.Spec == nil {
			return webhook.Response{}, err
		}
		problems := validate(review.object.Spec, approved, production)
		return webhook.Response{Denied: strings.Join(problems, "; ")}, nil
	}
}

// validate returns the rules that a spec breaks, each with its field and what to do.
func validate(spec *examplev1.WebAppSpec, approved registries.List, production bool) []string {
	var problems []string
	if _, err := approved.Check(spec.Image); err != nil {
		problems = append(problems, fmt.Sprintf("spec.image: %v", err))
	}
	if !production {
		return problems
	}
	if spec.Replicas > maxProductionReplicas {
		problems = append(problems, fmt.Sprintf("spec.replicas: must be at most %d in a production namespace, got %d",
			maxProductionReplicas, spec.Replicas))
	}
	for _, required := range requiredLimits {
		var limits workloadv1alpha1.ResourceList
		if spec.Resources != nil {
			limits = spec.Resources.Limits
		}
		// A limit of 0 is no limit.
		if limit, ok := limits[required.name]; !ok || limit.Sign() <= 0 {
			problems = append(problems, fmt.Sprintf("spec.resources.limits.%s: must be set and above 0 in a production namespace, for example %s",
				required.name, required.example))
		}
	}
	return problems
}

func mutating(production bool) webhook.Handler {
	return func(request *admissionv1.AdmissionRequest) (webhook.Response, error) {
		review, err := read[mutableSpec](request)
		if err != nil || review == nil || !review.isMutated() {
			return webhook.Response{}, err
		}
		patch := labelPatch(review.object.Metadata.Labels)
		if production && review.specChanges && review.object.Spec != nil {
			patch = append(patch, securityPatch(review.object.Spec.SecurityContext)...)
		}
		return webhook.Response{Patch: patch}, nil
	}
}

// isMutated reports whether the object gets defaults: when it is new, and when its spec or labels change.
func (r *review[S]) isMutated() bool {
	if r.old == nil {
		return true
	}
	return r.old.Metadata.DeletionTimestamp == nil &&
		(r.specChanges || !maps.Equal(r.object.Metadata.Labels, r.old.Metadata.Labels))
}

// labelPatch adds the default labels that are not set.
func labelPatch(labels map[string]string) []webhook.PatchOperation {
	if len(labels) == 0 {
		return []webhook.PatchOperation{webhook.Add(defaultLabels, "metadata", "labels")}
	}
	var patch []webhook.PatchOperation
	for _, name := range []string{"managed-by", "version"} {
		if _, ok := labels[name]; !ok {
			patch = append(patch, webhook.Add(defaultLabels[name], "metadata", "labels", name))
		}
	}
	return patch
}

// securityPatch adds the defaults of production namespaces that are not set.
func securityPatch(context *workloadv1alpha1.SecurityContext) []webhook.PatchOperation {
	var patch []webhook.PatchOperation
	if context == nil {
		context = &workloadv1alpha1.SecurityContext{}
		patch = append(patch, webhook.Add(map[string]any{}, "spec", "securityContext"))
	}
	for _, field := range []struct {
		name  string
		isSet bool
		value any
	}{
		{"runAsNonRoot", context.RunAsNonRoot != nil, true},
		{"runAsUser", context.RunAsUser != nil, productionUser},
		{"allowPrivilegeEscalation", context.AllowPrivilegeEscalation != nil, false},
	} {
		if !field.isSet {
			patch = append(patch, webhook.Add(field.value, "spec", "securityContext", field.name))
		}
	}
	return patch
}
