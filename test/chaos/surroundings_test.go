// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
)

// A surrounding makes the API server refuse the operator's writes of a resource in a namespace,
// from the return of begin until the call of end.
type surrounding struct {
	begin func(ctx context.Context, t *testing.T, namespace string, refused schema.GroupVersionResource) (end func(context.Context) error)
	// creationOnly is set if only creations are refused.
	creationOnly bool
}

// surroundings are by name.
var surroundings = map[string]surrounding{
	"full quota":      {begin: fillQuota, creationOnly: true},
	"denying policy":  {begin: denyByPolicy},
	"webhook is away": {begin: callAbsentWebhook},
}

// ofRefusal are the differences that a refused write may make: the history of a release has the
// attempts that failed.
var ofRefusal = cmp.Options{ofFault, without("history"), without("failures")}

// refusedFor is how long the API server refuses writes. In a short test, it refuses them until the
// operator has met a refusal.
const refusedFor = 30 * time.Second

// TestSurroundingsRefuse plays each subject while the API server refuses the operator's writes of
// one kind of its children, in each step with such writes. A short test plays each subject with one
// surrounding, which the seed selects.
func TestSurroundingsRefuse(t *testing.T) { //nolint:tparallel // The other tests disturb all runs.
	random := rand.New(rand.NewPCG(uint64(*seed), 0))
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		s, chosen := subjects[name], slices.Sorted(maps.Keys(surroundings))
		if testing.Short() {
			at := random.IntN(len(chosen))
			chosen = chosen[at : at+1]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, _ := undisturbed[name](t)
			for _, around := range chosen {
				t.Run(around, func(t *testing.T) {
					t.Parallel()
					count(t, 1)
					namespace := shared.Namespace(t)

					came := play(t, s, namespace, &want, surroundings[around].around(t, s, namespace, want), ofRefusal)

					assertAudits(t, want, came)
				})
			}
		})
	}
}

// around disturbs the steps in which the operator writes the child that drifts last, or another
// object of its resource.
func (d surrounding) around(t *testing.T, s subject, namespace string, undisturbed outcome) func(step string, take func()) {
	t.Helper()
	last := s.drift[len(s.drift)-1]
	refused := resourceOf(t, last)
	changed := !cmp.Equal(undisturbed.states[0].of(refused), undisturbed.states[1].of(refused))
	return func(step string, take func()) {
		writes := step == creation || !d.creationOnly &&
			(step == change && changed || step == driftOf+last.kind || step == deletion && s.release)
		if !writes {
			take()
			return
		}
		ctx := t.Context()
		end := d.begin(ctx, t, namespace, refused)
		begin := time.Now()
		take()
		awaitRefusal(ctx, t, namespace, begin)
		// A release is rolled back after some failed upgrades, and then waits for another spec.
		if step != change || !s.release {
			lastUntil(ctx, begin.Add(refusedFor))
		}
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// of returns the objects of a resource.
func (s state) of(resource schema.GroupVersionResource) state {
	found := state{}
	for name, object := range s {
		if strings.HasPrefix(name, resource.Resource+"/") {
			found[name] = object
		}
	}
	return found
}

// awaitRefusal waits until the API server has refused a write of the operator in a namespace.
func awaitRefusal(ctx context.Context, t *testing.T, namespace string, since time.Time) {
	t.Helper()
	about := ofNamespace(namespace)
	shared.AwaitAuditRequest(ctx, t, "a refused write", since, func(event cluster.AuditEvent) bool {
		isRefused := event.Code == http.StatusForbidden || event.Code == http.StatusUnprocessableEntity || event.Code >= http.StatusInternalServerError
		return about(event) && event.IsWrite() && isRefused
	})
}

// lastUntil lets refusals last until a time, unless the test is short.
func lastUntil(ctx context.Context, end time.Time) {
	if testing.Short() {
		return
	}
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
	}
}

// resourceOf returns the resource of a child.
func resourceOf(t *testing.T, d drift) schema.GroupVersionResource {
	t.Helper()
	gv, err := schema.ParseGroupVersion(d.apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := shared.Mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: d.kind}, gv.Version)
	if err != nil {
		t.Fatal(err)
	}
	return mapping.Resource
}

// fillQuota creates a quota that allows no object of a resource.
func fillQuota(ctx context.Context, t *testing.T, namespace string, refused schema.GroupVersionResource) func(context.Context) error {
	t.Helper()
	return shared.Forbid(ctx, t, namespace, corev1.ResourceName("count/"+refused.GroupResource().String()))
}

// operatorUser is the operator's user.
const operatorUser = "system:serviceaccount:" + cluster.OperatorNamespace + ":" + cluster.OperatorServiceAccount

// probe is the name of a ConfigMap whose creation shows that refusals are in force.
const probe = "probe"

// conditionsOf select writes of a resource by the operator, by the account that it impersonates,
// and by the probe.
func conditionsOf(refused schema.GroupVersionResource) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "refused", Expression: fmt.Sprintf(
		`request.name == '%s' || request.resource.resource == '%s' && (request.userInfo.username == '%s' || request.userInfo.username.endsWith(':deployer'))`,
		probe, refused.Resource, operatorUser,
	)}}
}

// rulesOf are the rules for all writes of a resource, and of the probe.
func rulesOf(refused schema.GroupVersionResource) []admissionregistrationv1.RuleWithOperations {
	rule := func(group, version, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		}
	}
	return []admissionregistrationv1.RuleWithOperations{rule(refused.Group, refused.Version, refused.Resource), rule("", "v1", "configmaps")}
}

func only(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// denyByPolicy creates an admission policy that denies the operator's writes.
func denyByPolicy(ctx context.Context, t *testing.T, namespace string, refused schema.GroupVersionResource) func(context.Context) error {
	t.Helper()
	client := shared.Client.AdmissionregistrationV1()
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for _, rule := range rulesOf(refused) {
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	_, err := client.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: rules},
			MatchConditions:  conditionsOf(refused),
			Validations: []admissionregistrationv1.Validation{{
				Expression: "false", Message: "denied by the test", Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        namespace,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources:    &admissionregistrationv1.MatchResources{NamespaceSelector: only(namespace)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitInForce(ctx, t, namespace)
	return func(ctx context.Context) error {
		return errors.Join(
			client.ValidatingAdmissionPolicyBindings().Delete(ctx, namespace, metav1.DeleteOptions{}),
			client.ValidatingAdmissionPolicies().Delete(ctx, namespace, metav1.DeleteOptions{}),
		)
	}
}

// callAbsentWebhook registers a webhook whose server accepts connections and never answers.
func callAbsentWebhook(ctx context.Context, t *testing.T, namespace string, refused schema.GroupVersionResource) func(context.Context) error {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // The end may have closed it.
	hooks := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "away.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://%s/", listener.Addr()))},
			Rules:                   rulesOf(refused),
			NamespaceSelector:       only(namespace),
			MatchConditions:         conditionsOf(refused),
			TimeoutSeconds:          ptr.To[int32](1),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitInForce(ctx, t, namespace)
	return func(ctx context.Context) error {
		return errors.Join(hooks.Delete(ctx, namespace, metav1.DeleteOptions{}), listener.Close())
	}
}

// awaitInForce waits until the API server refuses the probe, since it observes policies and
// webhooks through watches of its own.
func awaitInForce(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	cluster.Eventually(ctx, t, "writes are refused", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: probe},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	})
}

// TestPermissionWithdrawn withdraws the permission to write the children of all subjects while the
// subjects are created, until the operator has met refusals for each of them.
func TestPermissionWithdrawn(t *testing.T) { //nolint:tparallel // No other test may run meanwhile.
	playAllUndisturbed(t)
	giveBack := withdrawWrites(t)
	var refused sync.WaitGroup
	given := make(chan struct{})
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			refused.Add(1)
			t.Parallel()
			count(t, 1)
			isRefused := sync.OnceFunc(refused.Done)
			defer isRefused()
			want, _ := undisturbed[name](t)
			namespace := shared.Namespace(t)

			came := play(t, s, namespace, &want, func(step string, take func()) {
				begin := time.Now()
				take()
				if step == creation {
					awaitRefusal(t.Context(), t, namespace, begin)
					lastUntil(t.Context(), begin.Add(refusedFor))
					isRefused()
					<-given
				}
			}, ofRefusal)

			assertAudits(t, want, came)
		})
	}
	go func() {
		defer close(given)
		refused.Wait()
		giveBack()
	}()
}

// withdrawWrites takes from the operator the permission to create and change the children of all
// subjects, and to impersonate accounts.
func withdrawWrites(t *testing.T) (giveBack func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	withdrawn := sets.New("serviceaccounts")
	for _, s := range subjects {
		withdrawn.Insert(resourceOf(t, s.drift[len(s.drift)-1]).Resource)
	}
	client := shared.Client.RbacV1()
	bindings, err := client.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		isOperators := slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == cluster.OperatorNamespace })
		if _, isWithdrawn := rules[binding.RoleRef.Name]; isWithdrawn || !isOperators {
			continue
		}
		role, err := client.ClusterRoles().Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rules[role.Name] = role.Rules
		setRules(ctx, t, role.Name, readOnly(role.Rules, withdrawn))
	}
	giveBack = sync.OnceFunc(func() {
		for name, rules := range rules {
			setRules(ctx, t, name, rules)
		}
	})
	t.Cleanup(giveBack)
	return giveBack
}

// readOnly returns rules without the permission to write some resources.
func readOnly(rules []rbacv1.PolicyRule, withdrawn sets.Set[string]) []rbacv1.PolicyRule {
	isWithdrawn := func(resource string) bool { return withdrawn.Has(resource) }
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		kept, reading := *rule.DeepCopy(), *rule.DeepCopy()
		kept.Resources = slices.DeleteFunc(kept.Resources, isWithdrawn)
		reading.Resources = slices.DeleteFunc(reading.Resources, func(resource string) bool { return !isWithdrawn(resource) })
		reading.Verbs = slices.DeleteFunc(reading.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
		for _, rule := range []rbacv1.PolicyRule{kept, reading} {
			if len(rule.Verbs) > 0 && len(rule.Resources)+len(rule.NonResourceURLs) > 0 {
				left = append(left, rule)
			}
		}
	}
	return left
}

// setRules writes the rules of a role.
func setRules(ctx context.Context, t *testing.T, role string, rules []rbacv1.PolicyRule) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Client.RbacV1().ClusterRoles().Patch(ctx, role, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}
