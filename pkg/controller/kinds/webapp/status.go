// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/refusal"
)

// summarize sets the status after Ensure. blockedBy is the entry that blocks the image.
func summarize(p *pass, state child.State, blockedBy string, err error) {
	s, deployment := &p.Object.Status, state.Of("Deployment", p.Object.Name)
	s.ObservedGeneration, s.ReadyReplicas = p.Object.Generation, deployment.Health.ReadyReplicas
	workload.Report(p, state, err, "spec")
	conditions, refused := p.Conditions(), deployment.Health.PodsRefused
	reportAvailable(conditions, deployment)
	switch {
	case blockedBy != "":
		conditions.MarkStalled(examplev1.ReasonImageBlocked, blockedMessage(p.Object.Spec.Image, blockedBy, deployment))
	case refused != "" && err == nil && !meta.IsStatusConditionTrue(s.Conditions, apimeta.ConditionReady):
		conditions.MarkStalled(examplev1.ReasonPodsRefused, refusedMessage(refused))
	}
	s.Phase = phaseOf(s.Conditions)
}

// reportAvailable copies the condition Available from the Deployment.
func reportAvailable(conditions status.Editor, deployment *child.Observed) {
	const available = examplev1.ConditionAvailable
	switch {
	case deployment.Name == "":
		conditions.Set(available, metav1.ConditionFalse, examplev1.ReasonNoDeployment, "The Deployment does not exist")
	case deployment.Health.Available:
		conditions.Set(available, metav1.ConditionTrue, examplev1.ReasonMinimumReplicasAvailable, "Enough pods are available")
	default:
		conditions.Set(available, metav1.ConditionFalse, examplev1.ReasonMinimumReplicasUnavailable, "Too few pods are available")
	}
}

func blockedMessage(image, blockedBy string, deployment *child.Observed) string {
	effect := "no pods are created"
	if deployment.Image(container) == image {
		effect = "the existing pods keep running"
	} else if deployment.Name != "" {
		effect = "the existing Deployment stays as it is"
	}
	return fmt.Sprintf("spec.image: %q is blocked by %q of --blocked-images: %s; set spec.image to an image that is not blocked",
		image, blockedBy, effect)
}

// refusals maps the API server's texts about refused pods to the field that causes the refusal.
var refusals = []struct {
	text          refusal.Text
	field, advice string
}{
	{
		refusal.PodSecurityViolated, "spec.securityContext", "change it to meet the Pod Security level that the namespace or the cluster " +
			"enforces: with runAsNonRoot true, the pods meet the restricted level",
	},
	{refusal.QuotaExceeded, "spec.replicas, spec.resources", "reduce them, or raise the ResourceQuota of the namespace"},
	{refusal.QuotaUnspecified, "spec.resources", "set the resources that the ResourceQuota of the namespace requires"},
	{refusal.LimitExceeded, "spec.resources", "change them to meet the LimitRange of the namespace"},
}

// refusedMessage says which field has the API server refuse the pods, and what to do.
func refusedMessage(answer string) string {
	for _, known := range refusals {
		if known.text.In(answer) {
			return fmt.Sprintf("%s: the API server refuses the pods: %s; %s", known.field, answer, known.advice)
		}
	}
	return fmt.Sprintf("spec: the API server refuses the pods: %s; change the spec, or the rule that refuses them", answer)
}

// phaseOf summarizes the conditions.
func phaseOf(conditions []metav1.Condition) string {
	available := meta.FindStatusCondition(conditions, examplev1.ConditionAvailable)
	deployed := available != nil && available.Reason != examplev1.ReasonNoDeployment
	switch {
	case deployed && meta.IsStatusConditionTrue(conditions, apimeta.ConditionReconciling):
		return examplev1.PhaseDeploying
	case deployed && available.Status == metav1.ConditionTrue:
		return examplev1.PhaseRunning
	default:
		return examplev1.PhasePending
	}
}

func transitions(before, after *examplev1.WebApp) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
