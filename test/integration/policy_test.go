// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
)

// policy is an admission policy of one test.
type policy struct {
	name string
	// namespace is where the policy holds.
	namespace string
	// group, version and resource select the requests.
	group, version, resource string
	// operations are those that the policy checks; create and update by default.
	operations []admissionregistrationv1.OperationType
	// expression is the CEL expression of allowed requests.
	expression string
	// message is the CEL expression of the refusal's message.
	message string
}

// apply creates the policy, and waits until the API server refuses attempt, which must break the
// policy and no other rule. The returned function removes the policy, and so does the end of the
// test.
func (p policy) apply(t *testing.T, attempt func(context.Context) error) (remove func()) {
	t.Helper()
	client := shared.Client.AdmissionregistrationV1()
	operations := p.operations
	if len(operations) == 0 {
		operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	}
	_, err := client.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: operations,
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{p.group}, APIVersions: []string{p.version}, Resources: []string{p.resource},
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: p.expression, MessageExpression: p.message}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        p.name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.namespace}},
			},
		},
	}, metav1.CreateOptions{})
	remove = func() {
		ctx := context.WithoutCancel(t.Context())
		for _, err := range []error{
			client.ValidatingAdmissionPolicyBindings().Delete(ctx, p.name, metav1.DeleteOptions{}),
			client.ValidatingAdmissionPolicies().Delete(ctx, p.name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	// The API server observes policies through a watch of its own.
	cluster.Eventually(t.Context(), t, "policy in force", func(ctx context.Context) (bool, error) {
		err := attempt(ctx)
		if err == nil {
			return false, fmt.Errorf("%s was not refused", p.resource)
		}
		return apierrors.IsInvalid(err), err
	})
	return remove
}
