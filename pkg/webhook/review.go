// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
)

// reviewType is the only version of AdmissionReview that is understood.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// decode reads the request of an AdmissionReview. Names of fields are case-sensitive, and a field that occurs twice is an
// error, because two readers could understand it differently. Unknown fields are ignored: a later API server may send
// more, and must not be refused.
func decode(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
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
	}
	return review.Request, nil
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
