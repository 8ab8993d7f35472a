// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const forbiddenImage = "forbidden.example.com/nginx:1"

// forbidImage refuses Deployments of the image above.
func forbidImage(t *testing.T, ns *apps.Namespace) (remove func()) {
	t.Helper()
	return forbidImageIn(t, ns.Name)
}

// forbidImageIn is like forbidImage, for a namespace of that name.
func forbidImageIn(t *testing.T, namespace string) (remove func()) {
	t.Helper()
	return policy{
		name: "images-" + namespace, namespace: namespace, group: "apps", version: "v1", resource: "deployments",
		expression: `object.spec.template.spec.containers.all(c, !c.image.startsWith("forbidden.example.com/"))`,
		message:    `"this image is not welcome here"`,
	}.apply(t, func(ctx context.Context) error {
		probe := deployment("probe", forbiddenImage)
		_, err := shared.Client.AppsV1().Deployments(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	before := ns.Objects("web")
	forbidImage(t, ns)

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Image = forbiddenImage })
	app := ns.Await("web", "refused", isRefused)
	assertRefused(t, app, "this image is not welcome here")
	if apps.Revision(app) != 1 {
		t.Errorf("the status says that revision %d is deployed", apps.Revision(app))
	}
	ns.AwaitQuiet(quiet)
	if records := ns.Records("web"); len(records) > 2 {
		t.Errorf("revisions grow: %v", records)
	}
	if got := ns.Objects("web").Deployment; got.UID != before.Deployment.UID || got.Generation != before.Deployment.Generation {
		t.Error("the Deployment was touched")
	}

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Image = "nginx:1.28-alpine" })
	app = ns.AwaitReady("web")
	if got := ns.Objects("web").Deployment.Spec.Template.Spec.Containers[0].Image; got != "nginx:1.28-alpine" {
		t.Errorf("image is %s", got)
	}
	records := ns.Records("web")
	if last := records[len(records)-1]; last.Status != "deployed" || int64(last.Revision) != apps.Revision(app) {
		t.Errorf("records %v, status says revision %d", records, apps.Revision(app))
	}
	if len(records) > 3 {
		t.Errorf("revisions grew: %v", records)
	}
}

// TestQuota exceeds a quota, which may allow a later attempt. So the operator retries.
func TestQuota(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	allow := shared.Forbid(t.Context(), t, ns.Name, "count/deployments.apps")
	awaitQuotaInForce(t, ns)
	ns.Create(apps.Named("web"))
	app := ns.Await("web", "failed", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionFailed, metav1.ConditionTrue, releasev1alpha1.ReasonInstallFailed)
	})
	if message := apps.Condition(app, releasev1alpha1.ConditionFailed).Message; !strings.Contains(message, "quota") {
		t.Errorf("Failed does not say why: %s", message)
	}
	if !apps.Has(app, apimeta.ConditionReconciling, metav1.ConditionTrue, "") || !apps.IsAbsent(app, apimeta.ConditionStalled) ||
		!apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonInstallFailed) {
		t.Errorf("conditions while it is retried: %+v", app.Status.Conditions)
	}
	// Requests for the Deployment show three attempts.
	awaitAttempts(t, ns, 3)
	if records := ns.Records("web"); len(records) > 1 {
		t.Errorf("revisions grow: %v", records)
	}

	if err := allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	app = ns.AwaitReady("web")
	if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonRetryAfterFailure {
		t.Errorf("lastUpgradeReason is %s", app.Status.LastUpgradeReason)
	}
	if !apps.IsAbsent(app, releasev1alpha1.ConditionFailed) {
		t.Errorf("conditions still report the failure: %+v", app.Status.Conditions)
	}
	assertRecords(t, ns, "web v1 deployed")
}

// TestUnreachableWebhook: an admission webhook that cannot be called is no failed attempt, so
// no retry is counted.
func TestUnreachableWebhook(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	remove := breakDeployments(t, ns)
	web := apps.Named("web")
	web.Spec.Remediation = &releasev1alpha1.Remediation{Retries: ptr.To[int32](0), Strategy: releasev1alpha1.RemediationNone}
	ns.Create(web)
	awaitAttempts(t, ns, 3)
	app := ns.Await("web", "retried", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReconciling, metav1.ConditionTrue, releasev1alpha1.ReasonInstallFailed)
	})
	if message := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(message, "failed calling webhook") {
		t.Errorf("Ready does not say why: %s", message)
	}
	if app.Status.Failures != nil || !apps.IsAbsent(app, releasev1alpha1.ConditionRemediated) {
		t.Errorf("failures %+v, conditions %+v", app.Status.Failures, app.Status.Conditions)
	}
	remove()
	ns.AwaitReady("web")
}

// breakDeployments makes writes of Deployments in a namespace fail, because they call an
// admission webhook that nobody serves. The returned function removes the webhook.
func breakDeployments(t *testing.T, ns *apps.Namespace) (remove func()) {
	t.Helper()
	const name = "unreachable.example.com"
	remove = registerWebhook(t, ns, admissionregistrationv1.ValidatingWebhook{
		Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/validate")},
	}, admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}})
	cluster.Eventually(t.Context(), t, "webhook in force", func(ctx context.Context) (bool, error) {
		probe := deployment("probe", "nginx:1.27-alpine")
		_, err := shared.Client.AppsV1().Deployments(ns.Name).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInternalError(err) && strings.Contains(err.Error(), name), nil
	})
	return remove
}

// registerWebhook makes the API server call a webhook for all operations on the objects of a rule
// in a namespace. The returned function removes the webhook, as does the end of the test.
func registerWebhook(
	t *testing.T, ns *apps.Namespace, webhook admissionregistrationv1.ValidatingWebhook, rule admissionregistrationv1.Rule,
) (remove func()) {
	t.Helper()
	webhook.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, Rule: rule,
	}}
	webhook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.Name}}
	webhook.SideEffects, webhook.AdmissionReviewVersions = ptr.To(admissionregistrationv1.SideEffectClassNone), []string{"v1"}
	webhooks := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{webhook},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove = sync.OnceFunc(func() {
		if err := webhooks.Delete(context.WithoutCancel(t.Context()), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	return remove
}

func isRefused(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, apimeta.ReasonRefused) }

func assertRefused(t *testing.T, app *v1alpha1.DemoApp, message string) {
	t.Helper()
	for conditionType, status := range map[string]metav1.ConditionStatus{
		releasev1alpha1.ConditionFailed: metav1.ConditionTrue, apimeta.ConditionStalled: metav1.ConditionTrue,
		apimeta.ConditionReady: metav1.ConditionFalse, releasev1alpha1.ConditionDeployed: metav1.ConditionFalse,
	} {
		if !apps.Has(app, conditionType, status, apimeta.ReasonRefused) {
			t.Errorf("%s is %+v, want it %s because of %s", conditionType, apps.Condition(app, conditionType), status, apimeta.ReasonRefused)
		}
		if got := apps.Condition(app, conditionType).Message; !strings.Contains(got, message) {
			t.Errorf("%s does not say %q: %s", conditionType, message, got)
		}
	}
	if !apps.IsAbsent(app, apimeta.ConditionReconciling) {
		t.Errorf("Reconciling is %+v", apps.Condition(app, apimeta.ConditionReconciling))
	}
}

// awaitQuotaInForce waits until the quota has a status, from when on it is enforced.
func awaitQuotaInForce(t *testing.T, ns *apps.Namespace) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "quota in force", func(ctx context.Context) (bool, error) {
		probe := deployment("probe", "nginx:1.27-alpine")
		_, err := shared.Client.AppsV1().Deployments(ns.Name).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"), err
	})
}

// awaitAttempts waits until the operator has tried that often to create a Deployment.
func awaitAttempts(t *testing.T, ns *apps.Namespace, want int) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "attempts", func(context.Context) (bool, error) {
		attempts := 0
		for _, request := range ns.Requests(time.Time{}) {
			if request.Resource == "deployments" && request.Verb == "patch" {
				attempts++
			}
		}
		return attempts >= want, nil
	})
}

// deployment returns a Deployment that is valid but for its image.
func deployment(name, image string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
			},
		},
	}
}
