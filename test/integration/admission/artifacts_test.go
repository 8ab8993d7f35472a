// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestArtifactsAreAccepted holds that the API server accepts the files as they are, with the
// Service.
func TestArtifactsAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Root(), artifacts, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !servesDefaults() {
		files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == filepath.Base(defaultPolicies) })
	}
	objects, err := shared.Objects(files...)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := shared.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		options := metav1.ApplyOptions{FieldManager: "admission-test", Force: true, DryRun: []string{metav1.DryRunAll}}

		_, err = shared.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Apply(t.Context(), object.GetName(), object, options)
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// TestPolicyHasNoTypeErrors waits for the API server's check of the expressions against the schema
// of WebApps.
func TestPolicyHasNoTypeErrors(t *testing.T) {
	awaitNoRules(t.Context(), t)
	installPolicies(t)

	var policy *admissionregistrationv1.ValidatingAdmissionPolicy
	cluster.Eventually(t.Context(), t, "the expressions are checked", func(ctx context.Context) (bool, error) {
		var err error
		policy, err = shared.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "webapp-rules", metav1.GetOptions{})
		return err == nil && policy.Status.ObservedGeneration == policy.Generation && policy.Status.TypeChecking != nil, err
	})

	for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
		t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
	}
}
