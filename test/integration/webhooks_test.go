// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// operatorUser is the operator's user.
const operatorUser = "system:serviceaccount:" + cluster.OperatorNamespace + ":" + cluster.OperatorServiceAccount

// webhook is an admission webhook of a test, for the requests of a resource in a namespace.
type webhook struct {
	namespace      string
	group, version string
	// resource may have a subresource.
	resource string
	// mutates says that the webhook reviews the requests of all clients, and may change objects.
	// Otherwise it reviews the requests of the operator.
	mutates bool
	// review answers a request. A nil answer allows it.
	review func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// serve serves the webhook, and waits until the API server calls it. The returned function removes
// the webhook, and so does the end of the test.
func (w webhook) serve(t *testing.T) (remove func()) {
	t.Helper()
	const probe = "probe"
	server := httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(writer, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: probe}}
		if review.Request.Name != probe {
			answer = w.review(review.Request)
		}
		if answer == nil {
			answer = &admissionv1.AdmissionResponse{Allowed: true}
		}
		answer.UID = review.Request.UID
		review.Request, review.Response = nil, answer
		_ = json.NewEncoder(writer).Encode(review)
	}))
	t.Cleanup(server.Close)
	w.register(t, admissionregistrationv1.WebhookClientConfig{
		URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}, fmt.Sprintf("request.name == '%s' || %t || request.userInfo.username == '%s'", probe, w.mutates, operatorUser))
	remove = sync.OnceFunc(func() {
		ctx, client := context.WithoutCancel(t.Context()), shared.Client.AdmissionregistrationV1()
		err := client.ValidatingWebhookConfigurations().Delete(ctx, w.name(), metav1.DeleteOptions{})
		if w.mutates {
			err = client.MutatingWebhookConfigurations().Delete(ctx, w.name(), metav1.DeleteOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	cluster.Eventually(t.Context(), t, "webhook in force", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: probe}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), probe), err
	})
	return remove
}

func (w webhook) name() string { return w.namespace }

// register makes the API server call the webhook for requests that meet a condition, and for
// ConfigMaps, which show whether it does.
func (w webhook) register(t *testing.T, config admissionregistrationv1.WebhookClientConfig, condition string) {
	t.Helper()
	rule := func(group, version, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		}
	}
	validating := admissionregistrationv1.ValidatingWebhook{
		Name: "review.example.com", ClientConfig: config, TimeoutSeconds: ptr.To[int32](1),
		Rules:             []admissionregistrationv1.RuleWithOperations{rule(w.group, w.version, w.resource), rule("", "v1", "configmaps")},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
		MatchConditions:   []admissionregistrationv1.MatchCondition{{Name: "reviewed", Expression: condition}},
		SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
	}
	client, metadata := shared.Client.AdmissionregistrationV1(), metav1.ObjectMeta{Name: w.name()}
	var err error
	if w.mutates {
		_, err = client.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metadata, Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: validating.Name, ClientConfig: config, TimeoutSeconds: validating.TimeoutSeconds, Rules: validating.Rules,
				NamespaceSelector: validating.NamespaceSelector, MatchConditions: validating.MatchConditions, SideEffects: validating.SideEffects,
				AdmissionReviewVersions: validating.AdmissionReviewVersions, ReinvocationPolicy: ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
			}},
		}, metav1.CreateOptions{})
	} else {
		_, err = client.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metadata, Webhooks: []admissionregistrationv1.ValidatingWebhook{validating},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// noThanks is the message of refusals.
const noThanks = "no thanks"

// refuse refuses a request with a code, and a reason if it is not empty.
func refuse(code int32, reason metav1.StatusReason) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Reason: reason, Message: noThanks}}
}

// missTenant refuses a request, because the webhook misses an object of its own with a name.
func missTenant(name string) *admissionv1.AdmissionResponse {
	answer := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	answer.Result.Details = &metav1.StatusDetails{Group: "example.com", Kind: "tenants", Name: name}
	return answer
}

// refuseAll answers all requests of a resource that only admits.
func refuseAll(answer *admissionv1.AdmissionResponse, only func(*admissionv1.AdmissionRequest) bool) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if request.Resource.Resource == "configmaps" || !only(request) {
			return nil
		}
		return answer.DeepCopy()
	}
}

func anyRequest(*admissionv1.AdmissionRequest) bool { return true }

func isDeletion(request *admissionv1.AdmissionRequest) bool {
	return request.Operation == admissionv1.Delete
}

// TestAnswersOfWebhook: whatever a webhook answers to a Deployment, the owner says it, and goes on when
// the webhook has gone.
func TestAnswersOfWebhook(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer *admissionv1.AdmissionResponse
		// refused says that a quick retry is no use; away that the attempt does not count.
		refused, away bool
	}{
		"400 without a reason": {answer: refuse(http.StatusBadRequest, ""), refused: true},
		"401":                  {answer: refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
		"403":                  {answer: refuse(http.StatusForbidden, metav1.StatusReasonForbidden)},
		"404":                  {answer: refuse(http.StatusNotFound, metav1.StatusReasonNotFound)},
		"misses an object":     {answer: missTenant("one")},
		"409":                  {answer: refuse(http.StatusConflict, metav1.StatusReasonConflict)},
		"413":                  {answer: refuse(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge), refused: true},
		"429":                  {answer: refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), away: true},
		"500 without a reason": {answer: refuse(http.StatusInternalServerError, "")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, ns := newSite(t), newNamespace(t)
			var removals []func()
			for _, namespace := range []string{site.namespace, ns.Name} {
				removals = append(removals, webhook{
					namespace: namespace, group: "apps", version: "v1", resource: "deployments", review: refuseAll(test.answer, anyRequest),
				}.serve(t))
			}

			ns.Create(apps.Named("web"))
			site.create()

			app := ns.Await("web", "says the answer", func(app *v1alpha1.DemoApp) bool {
				return strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, noThanks)
			})
			if counted := app.Status.Failures != nil && app.Status.Failures.Consecutive > 0; counted == test.away {
				t.Errorf("the attempt counts: %t, failures %+v", counted, app.Status.Failures)
			}
			if isRefused(app) != test.refused {
				t.Errorf("conditions are %+v, want Stalled: %t", app.Status.Conditions, test.refused)
			}
			site.awaitObject("says the answer", func(found *webappv1.Website) bool {
				ready := conditionOf(found, apimeta.ConditionReady)
				return ready != nil && ready.Status == metav1.ConditionFalse && strings.Contains(ready.Message, noThanks)
			})
			for _, remove := range removals {
				remove()
			}
			if test.refused { // The next attempt is minutes away.
				ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.ReplicaCount = ptr.To[int32](2) })
				site.scale(2)
			}
			ns.AwaitReady("web")
			site.awaitReady()
		})
	}
}

// TestWebhookRefusesDeletion: an uninstall is not complete before admission allows all deletions.
func TestWebhookRefusesDeletion(t *testing.T) {
	t.Parallel()
	answers := map[string]*admissionv1.AdmissionResponse{
		"400 without a reason": refuse(http.StatusBadRequest, ""),
		"403":                  refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		"404":                  refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		"misses an object":     missTenant("one"),
		"409":                  refuse(http.StatusConflict, metav1.StatusReasonConflict),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Create(apps.Named("web"))
			ns.AwaitReady("web")
			remove := webhook{namespace: ns.Name, group: "apps", version: "v1", resource: "deployments", review: refuseAll(answer, isDeletion)}.serve(t)

			ns.Delete("web")

			ns.Await("web", "says the answer", func(app *v1alpha1.DemoApp) bool {
				return strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, noThanks)
			})
			if ns.Objects("web").Deployment == nil {
				t.Error("the Deployment is gone")
			}
			remove()
			ns.AwaitGone("web")
			cluster.Eventually(t.Context(), t, "Deployment gone", func(context.Context) (bool, error) { return ns.Objects("web").Deployment == nil, nil })
		})
	}
}

// TestWebhookRefusesRemovalOfFinalizer: the object says why it stays, and goes when admission allows it.
func TestWebhookRefusesRemovalOfFinalizer(t *testing.T) {
	t.Parallel()
	answers := map[string]*admissionv1.AdmissionResponse{
		"400 without a reason": refuse(http.StatusBadRequest, ""),
		"403":                  refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		"misses an object":     missTenant("one"),
		"409":                  refuse(http.StatusConflict, metav1.StatusReasonConflict),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Create(apps.Named("web"))
			ns.AwaitReady("web")
			group := v1alpha1.SchemeGroupVersion
			remove := webhook{
				namespace: ns.Name, group: group.Group, version: group.Version, resource: "demoapps", review: refuseAll(answer, anyRequest),
			}.serve(t)

			ns.Delete("web")

			ns.Await("web", "says the answer", func(app *v1alpha1.DemoApp) bool {
				return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, apimeta.ReasonFinalizerFailed) &&
					strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, noThanks)
			})
			remove()
			ns.AwaitGone("web")
		})
	}
}

// TestWebhookRefusesStatus: a release is installed once, although its status cannot be written.
func TestWebhookRefusesStatus(t *testing.T) {
	t.Parallel()
	answers := map[string]*admissionv1.AdmissionResponse{
		"400 without a reason": refuse(http.StatusBadRequest, ""),
		"403":                  refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		"misses an object":     missTenant("one"),
		"409":                  refuse(http.StatusConflict, metav1.StatusReasonConflict),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			var refusals atomic.Int32
			group := v1alpha1.SchemeGroupVersion
			review := refuseAll(answer, anyRequest)
			remove := webhook{
				namespace: ns.Name, group: group.Group, version: group.Version, resource: "demoapps/status",
				review: func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
					if request.SubResource == "status" {
						refusals.Add(1)
					}
					return review(request)
				},
			}.serve(t)

			ns.Create(apps.WithoutPods("web"))

			cluster.Eventually(t.Context(), t, "status is refused again and again", func(context.Context) (bool, error) {
				return refusals.Load() >= 4 && ns.Objects("web").Deployment != nil, fmt.Errorf("%d refusals", refusals.Load())
			})
			remove()
			ns.AwaitReady("web")
			assertRecords(t, ns, "web v1 deployed")
		})
	}
}

// edit returns a review that changes Deployments by a JSON patch.
func edit(patch func(deployment *appsv1.Deployment) []map[string]any) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var deployment appsv1.Deployment
		if request.Resource.Resource != "deployments" || request.Operation == admissionv1.Delete || json.Unmarshal(request.Object.Raw, &deployment) != nil {
			return nil
		}
		operations := patch(&deployment)
		if len(operations) == 0 {
			return nil
		}
		data, err := json.Marshal(operations)
		if err != nil {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error()}}
		}
		return &admissionv1.AdmissionResponse{
			Allowed: true, Patch: data, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch), Warnings: []string{"this object was changed"},
		}
	}
}

func set(path string, value any) map[string]any {
	return map[string]any{"op": "add", "path": path, "value": value}
}

const firstImage = "/spec/template/spec/containers/0/image"

// TestMutatingWebhook: a change by admission on the way is no drift. The release and the child stay
// as admission made them, can be changed, and can be removed.
func TestMutatingWebhook(t *testing.T) {
	t.Parallel()
	var writes atomic.Int32
	tests := map[string]func(*appsv1.Deployment) []map[string]any{
		"renames the image": func(d *appsv1.Deployment) []map[string]any {
			if strings.HasPrefix(d.Spec.Template.Spec.Containers[0].Image, "mirror.example.com/") {
				return nil
			}
			return []map[string]any{set(firstImage, "mirror.example.com/"+d.Spec.Template.Spec.Containers[0].Image)}
		},
		"adds a sidecar": func(d *appsv1.Deployment) []map[string]any {
			if slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "proxy" }) {
				return nil
			}
			proxy := d.Spec.Template.Spec.Containers[0].DeepCopy()
			proxy.Name, proxy.Ports, proxy.ReadinessProbe, proxy.LivenessProbe, proxy.StartupProbe = "proxy", nil, nil, nil, nil
			return []map[string]any{set("/spec/template/spec/containers/-", proxy)}
		},
		"sets defaults": func(*appsv1.Deployment) []map[string]any {
			return []map[string]any{set("/spec/minReadySeconds", 1), set("/spec/template/spec/priorityClassName", "")}
		},
		"stamps each write": func(*appsv1.Deployment) []map[string]any {
			return []map[string]any{set("/metadata/labels/stamp", fmt.Sprint("w", writes.Add(1)))}
		},
	}
	for name, patch := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, ns := newSite(t), newNamespace(t)
			for _, namespace := range []string{site.namespace, ns.Name} {
				webhook{namespace: namespace, group: "apps", version: "v1", resource: "deployments", mutates: true, review: edit(patch)}.serve(t)
			}
			begin := time.Now()
			ns.Create(apps.Named("web"))
			site.create()
			ns.AwaitReady("web")
			site.awaitReady()
			ns.AwaitQuiet(quiet)
			if sent := site.settle(begin)["patch deployments"]; sent != 1 {
				t.Errorf("the child was applied %d times", sent)
			}
			if sent := patchesOf(ns, "deployments", begin); sent != 1 {
				t.Errorf("the object of the release was applied %d times", sent)
			}

			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.ReplicaCount = ptr.To[int32](2) })
			site.scale(2)

			ns.AwaitReady("web")
			site.awaitReady()
			ns.Delete("web")
			ns.AwaitGone("web")
			cluster.Eventually(t.Context(), t, "Deployment gone", func(context.Context) (bool, error) { return ns.Objects("web").Deployment == nil, nil })
		})
	}
}

// TestWebhookTakesLabel: without the label by which the operator watches objects, it would see neither
// their health nor their drift.
func TestWebhookTakesLabel(t *testing.T) {
	t.Parallel()
	const label = "/metadata/labels/app.kubernetes.io~1managed-by"
	tests := map[string]map[string]any{"another value": set(label, "platform"), "removed": {"op": "remove", "path": label}}
	for name, operation := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, ns := newSite(t), newNamespace(t)
			var removals []func()
			for _, namespace := range []string{site.namespace, ns.Name} {
				removals = append(removals, webhook{
					namespace: namespace, group: "apps", version: "v1", resource: "deployments", mutates: true,
					review: edit(func(d *appsv1.Deployment) []map[string]any {
						if value, ok := d.Labels["app.kubernetes.io/managed-by"]; !ok || value == "platform" {
							return nil
						}
						return []map[string]any{operation}
					}),
				}.serve(t))
			}

			ns.Create(apps.Named("web"))
			site.create()

			const says = "admission changes its label app.kubernetes.io/managed-by from "
			assertRefused(t, ns.Await("web", "refused", isRefused), says)
			ready := conditionOf(site.await(apimeta.ConditionReady, apimeta.ReasonRefused), apimeta.ConditionReady)
			assertContains(t, "message", ready.Message, says)
			for _, remove := range removals {
				remove()
			}
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.ReplicaCount = ptr.To[int32](2) }) // The next attempt is minutes away.
			site.scale(2)
			ns.AwaitReady("web")
			site.awaitReady()
		})
	}
}

// patchesOf counts the operator's patches of a resource since a time.
func patchesOf(ns *apps.Namespace, resource string, since time.Time) int {
	count := 0
	for _, request := range ns.Requests(since) {
		if request.Resource == resource && request.Subresource == "" && request.Verb == "patch" {
			count++
		}
	}
	return count
}

// TestQuotaOfSecrets: a release needs a Secret for each revision, and none for its end.
func TestQuotaOfSecrets(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	allow := shared.Forbid(t.Context(), t, ns.Name, "count/secrets")

	ns.Create(apps.WithoutPods("web"))

	app := ns.Await("web", "is refused", func(app *v1alpha1.DemoApp) bool {
		return apps.Condition(app, apimeta.ConditionReady).Status == metav1.ConditionFalse && app.Status.Failures != nil
	})
	if message := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(message, "Secret") && !strings.Contains(message, "secrets") {
		t.Errorf("Ready does not name the Secret: %s", message)
	}
	if err := allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	ns.AwaitReady("web")
	shared.Forbid(t.Context(), t, ns.Name, "count/secrets")
	ns.Delete("web")
	ns.AwaitGone("web")
	if records := ns.Records("web"); len(records) > 0 {
		t.Errorf("records remain: %v", records)
	}
}
