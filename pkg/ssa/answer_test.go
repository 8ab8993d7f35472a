// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

func TestIsServerFault(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no error":                             {nil, false},
		"no request":                           {errors.New("the template fails"), false},
		"no connection":                        {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: errors.New("connection refused")}, true},
		"the connection breaks":                {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: io.ErrUnexpectedEOF}, true},
		"a deadline":                           {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: context.DeadlineExceeded}, true},
		"too many requests":                    {apierrors.NewTooManyRequests("slow down", 1), true},
		"a server that starts":                 {apierrors.NewServiceUnavailable("starting"), true},
		"a webhook is too slow":                {apierrors.NewTimeoutError("request did not complete", 0), true},
		"storage is too slow":                  {apierrors.NewServerTimeout(deployments, "patch", 2), true},
		"an absent webhook":                    {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"a proxy without a backend":            {apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", deployments, "web", "", 0, true), true},
		"a proxy that is too slow":             {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "patch", deployments, "web", "", 0, true), true},
		"500 that is no status":                {apierrors.NewGenericServerResponse(http.StatusInternalServerError, "patch", deployments, "web", "", 0, true), true},
		"wrapped and joined":                   {errors.Join(errors.New("a"), fmt.Errorf("b: %w", apierrors.NewServiceUnavailable("starting"))), true},
		"equal keys under server-side apply":   {status(500, "", "failed to create typed patch object"), false},
		"the text of a webhook without reason": {status(500, "", "failed calling webhook"), false},
		"too large for etcd":                   {status(500, "", "etcdserver: request is too large"), false},
		"too large for a message":              {status(500, "", "rpc error: code = ResourceExhausted desc = trying to send message larger than max"), false},
		"a webhook with a reason of its own":   {status(500, "Tired", "admission webhook denied the request"), false},
		"a policy denies":                      {apierrors.NewForbidden(deployments, "web", errors.New("denied")), false},
		"a quota":                              {apierrors.NewForbidden(deployments, "web", errors.New("exceeded quota")), false},
		"invalid":                              {apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", nil), false},
		"a webhook answers 400":                {apierrors.NewBadRequest("no"), false},
		"a webhook answers 404":                {status(404, metav1.StatusReasonNotFound, "no"), false},
		"a quota that others change, too":      {apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "pods", errors.New("changed")), true},
		"the object has changed":               {apierrors.NewConflict(deployments, "web", errors.New("changed")), false},
		"a webhook answers 409":                {status(409, metav1.StatusReasonConflict, "no"), false},
		"a webhook answers 413":                {apierrors.NewRequestEntityTooLargeError("no"), false},
		"a webhook answers 415":                {status(415, metav1.StatusReasonUnsupportedMediaType, "no"), false},
		"a webhook answers 422":                {status(422, metav1.StatusReasonInvalid, "no"), false},
		"a webhook answers 501":                {status(501, "", "no"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsServerFault(test.err); got != test.want {
				t.Errorf("IsServerFault(%v) = %t, want %t", test.err, got, test.want)
			}
		})
	}
}

// TestAnswerAboutAnotherObject: admission may answer a write as if another object were the subject.
func TestAnswerAboutAnotherObject(t *testing.T) {
	deployments, secrets := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		err            error
		gone, outdated bool
	}{
		"no error":                            {},
		"the object is gone":                  {apierrors.NewNotFound(deployments, "web"), true, false},
		"wrapped":                             {fmt.Errorf("delete: %w", apierrors.NewNotFound(deployments, "web")), true, false},
		"the kind is not served":              {apierrors.NewGenericServerResponse(http.StatusNotFound, "delete", deployments, "web", "404 page not found", 0, true), true, false},
		"the object was replaced":             {apierrors.NewConflict(deployments, "web", errors.New("precondition failed")), false, true},
		"a webhook misses another object":     {apierrors.NewNotFound(secrets, "credentials"), false, false},
		"a webhook answers 404":               {status(404, metav1.StatusReasonNotFound, "no"), false, false},
		"a webhook answers 404 and no reason": {status(404, "", "no"), false, false},
		"a webhook answers 409":               {status(409, metav1.StatusReasonConflict, "no"), false, false},
		"a webhook meets a conflict":          {apierrors.NewConflict(secrets, "credentials", errors.New("changed")), false, false},
		"a webhook denies":                    {apierrors.NewForbidden(deployments, "web", errors.New("denied")), false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if gone, outdated := IsGone(test.err, "web"), IsOutdated(test.err, "web"); gone != test.gone || outdated != test.outdated {
				t.Errorf("IsGone = %t, IsOutdated = %t; want %t, %t", gone, outdated, test.gone, test.outdated)
			}
		})
	}
}
