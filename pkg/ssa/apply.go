// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// NeverResourceVersion is no object's resourceVersion. An apply that carries it creates
// an absent object and conflicts with an existing one, even when forced. The integration tests
// hold that on each supported version of Kubernetes.
const NeverResourceVersion = "1"

var (
	secretKind      = schema.GroupKind{Kind: "Secret"}
	clusterRoleKind = schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}
)

// Mode selects how an apply treats an existing object.
type Mode int

const (
	// Create succeeds only when the object does not exist.
	Create Mode = iota
	// Force takes over fields of other managers.
	Force
	// Keep fails if other managers own fields with other values.
	Keep
	// Claim is Force over an object of which the manager owns nothing by apply, see [Over]. It also ends
	// the ownership by update of the clients that wrote the copy. Otherwise, a field would stay after its
	// removal from the desired state.
	Claim
)

// Over returns the mode for an apply over an existing object of the manager: [Claim] if a backup tool
// created the object again, or if a client reset its managedFields, and otherwise [Force]. fingerprint
// is the fingerprint of the manager.
func Over(fingerprint string) Mode {
	if fingerprint == "" {
		return Claim
	}
	return Force
}

// Request returns the body and the options of one server-side apply of a prepared object.
// With a UID, the apply succeeds only on the object with that UID: another object is
// Invalid, and an absent one is a Conflict.
func Request(prepared *unstructured.Unstructured, manager string, mode Mode, uid types.UID) ([]byte, metav1.PatchOptions, error) {
	sent := &unstructured.Unstructured{Object: maps.Clone(prepared.Object)}
	if metadata, ok := sent.Object["metadata"].(map[string]any); ok {
		sent.Object["metadata"] = maps.Clone(metadata)
	}
	if mode == Create {
		sent.SetResourceVersion(NeverResourceVersion)
	}
	if uid != "" {
		sent.SetUID(uid)
	}
	force := mode != Keep
	data, err := json.Marshal(sent.Object)
	return data, metav1.PatchOptions{FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict}, err
}

// IsOtherObject reports whether the answer to an apply with a UID may mean that the object was
// replaced or deleted.
func IsOtherObject(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }

// IsReplaced reports whether the answer to an apply with a UID means that an object with another
// UID has the name. Such an answer is Invalid, as for invalid values, but it names the UID.
func IsReplaced(err error) bool { return slices.Contains(RefusedFields(err), "metadata.uid") }

// RefusedFields returns the fields that an answer Invalid names, with "" for a cause without a
// field. It returns nil for other errors.
func RefusedFields(err error) []string {
	var fields []string
	for _, cause := range Causes(err) {
		fields = append(fields, cause.Field)
	}
	return fields
}

// Causes returns the causes of an answer Invalid. It returns nil for other errors.
func Causes(err error) []metav1.StatusCause {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return nil
	}
	return answer.Status().Details.Causes
}

// Prepare returns a copy of the object for an apply. The copy has no metadata that only the API
// server sets, one item for each key of a list, and no fields that another client immediately takes
// over. [Check] names the parts that are left out.
//
// The stringData of a Secret becomes data: the API server would record the manager as the owner of
// stringData, which does not exist in the stored object, and a changed key would go unseen. As on
// the API server, a null in stringData is an empty string. A value of the wrong type is not
// converted, so that the API server refuses it.
//
// A ClusterRole with an aggregationRule has no rules: kube-controller-manager replaces them.
//
// No object has a status: the status belongs to the controller of the kind. Of a kind without the
// status subresource, an apply would overwrite it.
func Prepare(object *unstructured.Unstructured) *unstructured.Unstructured {
	prepared, _, _ := prepare(object)
	return prepared
}

// Check returns one line for each part of an object that [Prepare] leaves out although a user gave
// it. The errors name the items of lists that server-side apply cannot keep. No line has a value.
func Check(object *unstructured.Unstructured) (notes []string, errs []error) {
	_, notes, errs = prepare(object)
	return notes, errs
}

func prepare(object *unstructured.Unstructured) (_ *unstructured.Unstructured, notes []string, errs []error) {
	prepared := object.DeepCopy()
	delete(prepared.Object, "status")
	if metadata, ok := prepared.Object["metadata"].(map[string]any); ok {
		notes = dropServerMetadata(metadata)
	}
	resolved, errs := resolveEqualKeys(prepared)
	switch prepared.GroupVersionKind().GroupKind() {
	case secretKind:
		moveStringData(prepared)
	case clusterRoleKind:
		if prepared.Object["aggregationRule"] != nil {
			delete(prepared.Object, "rules")
		}
	}
	return prepared, append(notes, resolved...), errs
}

// moveStringData moves the stringData of a Secret to its data.
func moveStringData(secret *unstructured.Unstructured) {
	texts, ok := secret.Object["stringData"].(map[string]any)
	data, isMap := secret.Object["data"].(map[string]any)
	if !ok || !isMap && secret.Object["data"] != nil {
		return
	}
	merged := maps.Clone(data)
	if merged == nil {
		merged = make(map[string]any, len(texts))
	}
	for key, value := range texts {
		text, isText := value.(string)
		if !isText && value != nil {
			return
		}
		merged[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(secret.Object, "stringData")
	secret.Object["data"] = merged
}
