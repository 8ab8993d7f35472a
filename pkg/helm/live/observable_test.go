// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsRefusal(t *testing.T) {
	answers := map[int]bool{
		http.StatusForbidden:           true,
		http.StatusNotFound:            true,
		http.StatusInternalServerError: true, // A conversion webhook of the kind is broken.
		http.StatusRequestTimeout:      false,
		http.StatusGone:                false, // The watch is too old.
		http.StatusTooManyRequests:     false,
		http.StatusBadGateway:          false, // A proxy cannot reach the API server.
		http.StatusServiceUnavailable:  false, // An aggregated API has no server.
		http.StatusGatewayTimeout:      false,
	}
	for code, want := range answers {
		t.Run(http.StatusText(code), func(t *testing.T) {
			err := fmt.Errorf("failed to list: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code)}})
			if got := isRefusal(err); got != want {
				t.Errorf("got %t", got)
			}
		})
	}
	if isRefusal(errors.New("connection refused")) {
		t.Error("a lost connection is no answer")
	}
}
