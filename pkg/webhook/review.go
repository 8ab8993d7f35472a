// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"
)

// reviewType is the only supported version of AdmissionReview.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// maxUID is the length of the longest UID, in bytes. The answer repeats it.
const maxUID = 256

// received has the decoded fields of an AdmissionReview. It has no lists and no maps, because their
// decoded values take many times the memory of their text.
type received struct {
	metav1.TypeMeta `json:",inline"`
	Request         *struct {
		UID         types.UID                   `json:"uid"`
		Resource    metav1.GroupVersionResource `json:"resource"`
		SubResource string                      `json:"subResource"`
		Namespace   string                      `json:"namespace"`
		Name        string                      `json:"name"`
		Operation   admissionv1.Operation       `json:"operation"`
		Object      runtime.RawExtension        `json:"object"`
		OldObject   runtime.RawExtension        `json:"oldObject"`
	} `json:"request"`
}

// decode reads the request of an AdmissionReview. Names of fields are case-sensitive, and a
// duplicate field is an error, because two readers could interpret it differently. Unknown fields
// are ignored, because a later API server may send more fields.
func decode(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review received
	doubts, err := json.UnmarshalStrict(body, &review, json.DisallowDuplicateFields)
	switch {
	case err != nil:
		return nil, fmt.Errorf("decoding the AdmissionReview: %w", err)
	case len(doubts) > 0:
		return nil, fmt.Errorf("decoding the AdmissionReview: %w", errors.Join(doubts...))
	case review.TypeMeta != reviewType:
		return nil, fmt.Errorf("%s of %s is not understood: use AdmissionReview of %s", review.Kind, review.APIVersion, reviewType.APIVersion)
	case review.Request == nil || review.Request.UID == "":
		return nil, errors.New("the AdmissionReview has no request with a UID")
	case len(review.Request.UID) > maxUID:
		return nil, fmt.Errorf("the UID of the AdmissionReview is longer than %d bytes", maxUID)
	}
	request := review.Request
	return &admissionv1.AdmissionRequest{
		UID: request.UID, Resource: request.Resource, SubResource: request.SubResource, Namespace: request.Namespace,
		Name: request.Name, Operation: request.Operation, Object: request.Object, OldObject: request.OldObject,
	}, nil
}

// answer returns the AdmissionReview that answers a request.
func answer(request *admissionv1.AdmissionRequest, response Response) (*admissionv1.AdmissionReview, error) {
	encoded, err := response.encode()
	if err != nil {
		return nil, err
	}
	encoded.UID = request.UID
	return &admissionv1.AdmissionReview{TypeMeta: reviewType, Response: encoded}, nil
}
