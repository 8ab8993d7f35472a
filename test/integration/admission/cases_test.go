// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/webappcases"
)

// TestCases plays the same cases against the webhook and against the policies.
func TestCases(t *testing.T) {
	tests := []struct {
		name    string
		install func(t *testing.T)
		// defaults says that defaults are set.
		defaults bool
	}{
		{name: "webhook", defaults: true, install: func(t *testing.T) {
			t.Helper()
			e := newEndpoint(t)
			e.operator(t)
			e.install(t)
		}},
		{name: "policies", defaults: servesDefaults(), install: installPolicies},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			awaitNoRules(t.Context(), t)
			removeAtEnd(t)
			cases := webappcases.Load(t)
			for _, c := range cases {
				createOld(t, c)
			}

			test.install(t)
			awaitRules(t, test.defaults)

			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) { play(t, c, test.defaults) })
			}
		})
	}
}

// defaultPolicies are the policies that need Kubernetes 1.36.
const defaultPolicies = artifacts + "default-policies.yaml"

// servesDefaults reports whether the API server has the kinds of the default policies.
func servesDefaults() bool { return shared.Minor() >= 36 }

// installPolicies installs the policies for the registries of the cases, with the default policies if
// the API server serves them.
func installPolicies(t *testing.T) {
	t.Helper()
	files := []string{artifacts + "policies.yaml"}
	if servesDefaults() {
		files = append(files, defaultPolicies)
	}
	objects, err := shared.Objects(files...)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "ConfigMap" {
			lines := strings.Join(webappcases.Registries, "\n")
			if err := unstructured.SetNestedField(object.Object, lines, "data", "registries"); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(t, objects)
}

// createOld creates the WebApp that the case updates.
func createOld(t *testing.T, c webappcases.Case) {
	t.Helper()
	old := c.Old()
	if old == nil {
		return
	}
	if _, err := create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if c.Before.Deleting {
		if err := webApps(old.GetNamespace()).Delete(t.Context(), old.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// play sends the request of a case. Without defaults, only the decision is compared.
func play(t *testing.T, c webappcases.Case, defaults bool) {
	t.Helper()
	stored, err := send(t, c)

	if c.Denied != "" {
		if err == nil || !strings.Contains(err.Error(), c.Denied) {
			t.Errorf("error = %v, want %s", err, c.Denied)
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("the refusal is no answer of the rules: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !defaults {
		return
	}
	if diff := cmp.Diff(c.Result, webappcases.ResultOf(t, stored), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// send sends the request of a case.
func send(t *testing.T, c webappcases.Case) (*unstructured.Unstructured, error) {
	t.Helper()
	object := c.Object()
	client := webApps(object.GetNamespace())
	if c.Before == nil {
		return create(t.Context(), object)
	}
	live, err := client.Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.SetResourceVersion(live.GetResourceVersion())
	return client.Update(t.Context(), object, metav1.UpdateOptions{})
}
