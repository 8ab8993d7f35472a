// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Handler reviews a request. The request has only the UID, resource, subresource, namespace, name,
// operation and both objects. The objects are raw JSON of an untrusted sender: decode only the
// required fields. It must be a pure function, because the API server may send a request more than
// once. An error means that the request could not be reviewed. The API server then applies the
// failurePolicy of the webhook.
type Handler func(request *admissionv1.AdmissionRequest) (Response, error)

// Response is the result of a review. The zero value allows the object without changes.
type Response struct {
	// Denied is the reason of a refusal for the user, one line. If it is empty, the object is
	// allowed.
	Denied string
	// Patch changes the object. A refused object has no patch.
	Patch []PatchOperation
}

// PatchOperation is an operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Add returns the operation that adds a field or replaces its value. path has the unescaped parts
// of a JSON pointer. All parts except the last must exist.
func Add(value any, path ...string) PatchOperation {
	var pointer strings.Builder
	for _, part := range path {
		pointer.WriteString("/" + pointerEscapes.Replace(part))
	}
	return PatchOperation{Op: "add", Path: pointer.String(), Value: value}
}

// pointerEscapes are the escapes of RFC 6901.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// encode returns the response in the form of the API.
func (r Response) encode() (*admissionv1.AdmissionResponse, error) {
	if r.Denied != "" {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: r.Denied,
		}}, nil
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if len(r.Patch) == 0 {
		return response, nil
	}
	patch, err := json.Marshal(r.Patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	return response, nil
}
