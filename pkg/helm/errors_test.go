// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

func TestIsTerminal(t *testing.T) {
	cause := errors.New("cause")
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nil":                {nil, false},
		"any error":          {cause, false},
		"not synced":         {ErrNotSynced, false},
		"busy":               {&BusyError{Release: "default/web", RetryAfter: time.Second}, false},
		"does not render":    {&RenderError{Chart: "web", Err: cause}, true},
		"refused":            {&RefusedError{Err: cause}, true},
		"of another owner":   {&OwnershipConflictError{}, true},
		"too large":          {&ReleaseTooLargeError{Err: cause}, true},
		"no such revision":   {&NoSuchRevisionError{}, true},
		"not a chart":        {chart.ErrInvalid, true},
		"wrapped":            {fmt.Errorf("sync: %w", &RenderError{Err: cause}), true},
		"joined with others": {errors.Join(cause, &OwnershipConflictError{}), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsTerminal(tc.err); got != tc.want {
				t.Errorf("IsTerminal(%v) = %t, want %t", tc.err, got, tc.want)
			}
		})
	}
}

// TestMixedNumbers uses the texts of the template engine itself, which may change.
func TestMixedNumbers(t *testing.T) {
	for text, want := range map[string]bool{
		"{{ ge .integer .float }}": true, "{{ eq .float .integer }}": true, "{{ until .float }}": true, "{{ half .integer }}": true,
		"{{ half .text }}": false, "{{ index .text 9 }}": false,
	} {
		functions := template.FuncMap{"until": func(int) string { return "" }, "half": func(f float64) float64 { return f / 2 }}
		err := template.Must(template.New("chart").Funcs(functions).Parse(text)).
			Execute(io.Discard, map[string]any{"integer": int64(2), "float": 2.0, "text": "2"})
		message := (&RenderError{Chart: "web", Err: err}).Error()
		if got := strings.Contains(message, "int or float64"); err == nil || got != want {
			t.Errorf("%s: the message is %q, want the remedy %t", text, message, want)
		}
	}
}

func TestRefused(t *testing.T) {
	object := ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"invalid":          {apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil), true},
		"bad request":      {apierrors.NewBadRequest("unknown field"), true},
		"method":           {apierrors.NewMethodNotSupported(deployments, "patch"), true},
		"too large":        {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"forbidden":        {apierrors.NewForbidden(deployments, "web", errors.New("exceeded quota")), false},
		"conflict":         {apierrors.NewConflict(deployments, "web", errors.New("modified")), false},
		"namespace gone":   {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default"), false},
		"too many":         {apierrors.NewTooManyRequestsError("slow down"), false},
		"server's fault":   {apierrors.NewInternalError(errors.New("etcd")), false},
		"no answer at all": {errors.New("connection refused"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := refused(object, tc.err)
			if !errors.Is(got, tc.err) {
				t.Errorf("%v does not wrap the answer", got)
			}
			var refusal *RefusedError
			if errors.As(got, &refusal) != tc.want {
				t.Fatalf("refused(%v) = %T, want a refusal %t", tc.err, got, tc.want)
			}
			if tc.want && refusal.Object != object {
				t.Errorf("refusal is about %s, want %s", refusal.Object, object)
			}
		})
	}
}

func TestErrorMessages(t *testing.T) {
	cause := errors.New("cause")
	object := ObjectReference{Kind: "Service", Namespace: "default", Name: "web"}
	tests := map[string]error{
		"render chart demo-app: cause":                                                          &RenderError{Chart: "demo-app", Err: cause},
		"Service default/web was refused: cause":                                                &RefusedError{Object: object, Err: cause},
		"Service default/web exists and belongs to the others":                                  &OwnershipConflictError{Object: object, Holder: "the others"},
		"the record of release default/web does not fit into a Secret: cause":                   &ReleaseTooLargeError{Release: "default/web", Err: cause},
		"release default/web is being changed by another client: wait until its operation ends": &BusyError{Release: "default/web", Status: "being changed"},
	}
	for want, err := range tests {
		if got := err.Error(); got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
	}
}

func TestUnavailable(t *testing.T) {
	webhook := apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": connection refused`))
	timeUp := &url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: context.DeadlineExceeded}
	tests := map[string]struct {
		err   error
		ended bool
		want  bool
	}{
		"no error":                     {nil, false, false},
		"any error":                    {errors.New("hook failed"), false, false},
		"a webhook cannot be called":   {fmt.Errorf("ConfigMap default/web: %w", webhook), false, true},
		"a webhook is too slow":        {apierrors.NewTimeoutError("request did not complete", 0), false, true},
		"too many requests":            {apierrors.NewTooManyRequestsError("slow down"), false, true},
		"unavailable":                  {apierrors.NewServiceUnavailable("starting"), false, true},
		"a webhook denies":             {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", errors.New("denied")), false, false},
		"invalid":                      {&RefusedError{Err: apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "web", nil)}, false, false},
		"the connection is lost":       {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: io.EOF}, false, true},
		"a request takes too long":     {timeUp, false, true},
		"the operation takes too long": {timeUp, true, false},
		"refused, and unavailable":     {errors.Join(&RefusedError{Err: errors.New("invalid")}, webhook), false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got *UnavailableError
			err := unavailable(tc.err, tc.ended)
			if errors.As(err, &got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("error is %v (%T), want unavailable: %t", err, err, tc.want)
			}
		})
	}
}
