// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubejson "sigs.k8s.io/json"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/pkg/webhook"
)

// The paths of the webhooks in artifacts/kinds/webapp/admission/webhook.yaml. The API server calls
// the production paths for production namespaces.
const (
	PathValidate           = "/webapps/validate"
	PathValidateProduction = "/webapps/validate/production"
	PathMutate             = "/webapps/mutate"
	PathMutateProduction   = "/webapps/mutate/production"
)

const (
	// maxProductionReplicas is the number of pods that a WebApp in a production namespace may have.
	maxProductionReplicas = 10
	// maxSpec is the maximum size of a decoded spec, in bytes. The CRD allows only smaller specs.
	maxSpec = 64 << 10
	// productionUser is the default user ID in production namespaces.
	productionUser = 1000
)

// defaultLabels are added to each WebApp that lacks them.
var defaultLabels = map[string]string{"managed-by": "webapp-operator", "version": "v1"}

// requiredLimits are the resources that need a limit in production namespaces, with an example for
// messages.
var requiredLimits = []struct{ name, example string }{{"cpu", "500m"}, {"memory", "256Mi"}}

// Handlers returns the webhooks by path. The zero list of registries allows all images.
func Handlers(approved registries.List) map[string]webhook.Handler {
	return map[string]webhook.Handler{
		PathValidate: validating(approved, false), PathValidateProduction: validating(approved, true),
		PathMutate: mutating(false), PathMutateProduction: mutating(true),
	}
}

// object has the fields of a WebApp that the rules read. Fields of unbounded size stay raw, because
// decoded values take many times the memory of their text.
type object struct {
	Metadata struct {
		Labels            json.RawMessage `json:"labels"`
		DeletionTimestamp *metav1.Time    `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

// mutableSpec is the part of the spec that is mutated. The API server has not validated the other
// parts yet.
type mutableSpec struct {
	SecurityContext *workloadv1alpha1.SecurityContext `json:"securityContext"`
}

// review is a request with its decoded objects.
type review[S any] struct {
	object *object
	// old is nil for a new object.
	old *object
	// specChanges means that the spec is new or differs from the old spec.
	specChanges bool
	// spec is nil if the object has no spec, or if the spec does not change.
	spec *S
}

// read decodes a request. It returns nil if the request is not about a WebApp that is created or
// updated.
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
	result := &review[S]{object: &object{}, specChanges: true}
	if err := decode(request.Object.Raw, result.object); err != nil {
		return nil, err
	}
	if request.Operation == admissionv1.Update {
		result.old = &object{}
		if err := decode(request.OldObject.Raw, result.old); err != nil {
			return nil, err
		}
		// The API server sorts the fields of both specs. A spec in another order is reviewed
		// unnecessarily.
		result.specChanges = !bytes.Equal(result.object.Spec, result.old.Spec)
	}
	if !result.specChanges || len(result.object.Spec) == 0 {
		return result, nil
	}
	if size := len(result.object.Spec); size > maxSpec {
		return nil, fmt.Errorf("spec of the WebApp has %d bytes: at most %d are reviewed", size, maxSpec)
	}
	return result, decode(result.object.Spec, &result.spec)
}

func decode(raw []byte, into any) error {
	if err := kubejson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("decoding the WebApp: %w", err)
	}
	return nil
}

func validating(approved registries.List, production bool) webhook.Handler {
	return func(request *admissionv1.AdmissionRequest) (webhook.Response, error) {
		review, err := read[examplev1.WebAppSpec](request)
		if err != nil || review == nil || review.spec == nil {
			return webhook.Response{}, err
		}
		problems := validate(review.spec, approved, production)
		return webhook.Response{Denied: strings.Join(problems, "; ")}, nil
	}
}

// validate returns a message for each rule that a spec breaks, with the field and the remedy.
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
		patch, err := labelPatch(review.object.labels())
		if err != nil {
			return webhook.Response{}, err
		}
		if production && review.spec != nil {
			patch = append(patch, securityPatch(review.spec.SecurityContext)...)
		}
		return webhook.Response{Patch: patch}, nil
	}
}

// isMutated reports whether the object gets defaults: when it is new, and when its spec or labels
// change.
func (r *review[S]) isMutated() bool {
	if r.old == nil {
		return true
	}
	return r.old.Metadata.DeletionTimestamp == nil &&
		(r.specChanges || !bytes.Equal(r.object.labels(), r.old.labels()))
}

// labels returns the raw labels, or nil without labels.
func (o *object) labels() []byte {
	switch raw := o.Metadata.Labels; string(raw) {
	case "null", "{}":
		return nil
	default:
		return raw
	}
}

// labelPatch adds the missing default labels.
func labelPatch(labels []byte) ([]webhook.PatchOperation, error) {
	if len(labels) == 0 {
		return []webhook.PatchOperation{webhook.Add(defaultLabels, "metadata", "labels")}, nil
	}
	var set struct {
		ManagedBy *string `json:"managed-by"`
		Version   *string `json:"version"`
	}
	if err := decode(labels, &set); err != nil {
		return nil, err
	}
	var patch []webhook.PatchOperation
	if set.ManagedBy == nil {
		patch = append(patch, webhook.Add(defaultLabels["managed-by"], "metadata", "labels", "managed-by"))
	}
	if set.Version == nil {
		patch = append(patch, webhook.Add(defaultLabels["version"], "metadata", "labels", "version"))
	}
	return patch, nil
}

// securityPatch adds the missing defaults of production namespaces.
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
