// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/health"
)

// firstLook is the time that a running operator has for the first status of an object.
const firstLook = 15 * time.Second

// holds are the reasons with which the operator holds a change although nothing is wrong.
var holds = map[string]Verdict{
	releasev1alpha1.ReasonOutsideWindow:      Waits,
	releasev1alpha1.ReasonRolloutQueued:      Waits,
	releasev1alpha1.ReasonReleaseBusy:        Waits,
	releasev1alpha1.ReasonLicenseUnavailable: Waits,
	releasev1alpha1.ReasonRolloutHalted:      NeedsPerson,
	releasev1alpha1.ReasonTakeoverHeld:       NeedsPerson,
	releasev1alpha1.ReasonLicenseDenied:      NeedsPerson,
	releasev1alpha1.ReasonInvalidSchedule:    NeedsPerson,
}

// forceable are the holds that the annotation force-at overrides.
var forceable = []string{
	releasev1alpha1.ReasonOutsideWindow, releasev1alpha1.ReasonRolloutQueued, releasev1alpha1.ReasonRolloutHalted, releasev1alpha1.ReasonTakeoverHeld,
	childv1alpha1.ReasonAwaitingChange,
}

// finalizers are the finalizers of the operator. Kinds of a library have the group of the kind as prefix.
var finalizers = []string{
	demov1alpha1.Finalizer, databasev1.Finalizer, examplev1.Finalizer, watchesv1alpha1.Finalizer, watchesv1alpha1.FormerFinalizer,
}

// ofOwned says why an object of the operator is not ready.
func (f facts) ofOwned(node *Node) finding {
	summary, current := Summarize(node.Object), StatusOf(node.Object)
	found := finding{verdict: Waits, text: summary.Message, commands: []string{kubectl("describe", node.Reference)}}
	switch {
	case summary.Deleting:
		return f.ofDeleted(node, summary)
	case summary.Ready == metav1.ConditionTrue && current.True(apimeta.ConditionSuspended):
		return finding{text: summary.Message + "; suspended: " + current.Condition(apimeta.ConditionSuspended).Message}
	case summary.Ready == metav1.ConditionTrue && current.True(apimeta.ConditionUpgradeHeld):
		return ofHeldTemplate(node, summary, current.Condition(apimeta.ConditionUpgradeHeld))
	case summary.Ready == metav1.ConditionTrue:
		return ofReady(node, summary, current)
	case current.True(apimeta.ConditionSuspended):
		return ofSuspended(node, current.Condition(apimeta.ConditionSuspended))
	case summary.Reason == ReasonUnseen:
		return f.ofUnseen(node, summary)
	}
	if verdict, held := holds[summary.Reason]; held {
		found.verdict = verdict
		if slices.Contains(forceable, summary.Reason) {
			found.commands = []string{fmt.Sprintf("kubectl demoapp retry %s/%s -n %s", strings.ToLower(node.Kind), node.Name, node.Namespace)}
		}
		return found
	}
	if summary.Stalled {
		found.verdict, found.commands = NeedsPerson, []string{kubectl("edit", node.Reference)}
	}
	return f.ofFailing(node, summary, found)
}

// ofReady explains a ready object. Readiness hides that nothing backs up a database.
func ofReady(node *Node, summary Summary, current Status) finding {
	backup := current.Condition(databasev1.ConditionBackupConfigured)
	if backup == nil || backup.Status != metav1.ConditionFalse || !slices.Contains(unmadeBackups, backup.Reason) {
		return finding{text: summary.Message}
	}
	return finding{
		text: summary.Message + "; " + backup.Reason + ": " + backup.Message, commands: []string{kubectl("edit", node.Reference)},
	}
}

// unmadeBackups are the reasons for which backups that are requested are not made, although the object
// is ready.
var unmadeBackups = []string{databasev1.ReasonNoDestination, childv1alpha1.ReasonAwaitingChange}

// ofHeldTemplate explains a ready object whose pods keep their template, because a newer one waits for
// its turn or for a change of the object.
func ofHeldTemplate(node *Node, summary Summary, held *metav1.Condition) finding {
	found := finding{text: summary.Message + "; " + held.Reason + ": " + held.Message}
	if slices.Contains(forceable, held.Reason) {
		found.commands = []string{force(node)}
	}
	return found
}

// force returns the command that applies a held template now.
func force(node *Node) string {
	return fmt.Sprintf("%s %s=\"$(date)\" --overwrite", kubectl("annotate", node.Reference), apimeta.AnnotationForceAt)
}

// ofFailing says why an object is not ready that the operator neither holds nor left unseen: the
// API server refuses something, or another object is missing, not ready or has the same name.
func (f facts) ofFailing(node *Node, summary Summary, found finding) finding {
	if strings.Contains(summary.Message, releasev1alpha1.AnnotationAdoptRelease) {
		found.commands = []string{fmt.Sprintf("kubectl demoapp adopt %s/%s -n %s", strings.ToLower(node.Kind), node.Name, node.Namespace)}
		return found
	}
	mentioned := f.mentions(node, summary.Message)
	switch inTheWay, claimed := strings.Contains(summary.Message, " exists and belongs to "), strings.Contains(summary.Message, " belongs to "); {
	case inTheWay && len(mentioned) > 0:
		found.verdict, found.next, found.blamed = NeedsPerson, &mentioned[0], true
		found.commands = []string{kubectl("describe", mentioned[0])}
		return found
	case claimed && !inTheWay:
		return found // What another object has, such as a host, is to be chosen anew here.
	}
	worstChild := f.worst(node)
	followsPods := slices.Contains([]string{apimeta.ReasonProgressing, apimeta.ReasonUnhealthy, releasev1alpha1.ReasonHealthTimeout}, summary.Reason)
	if refused, ok := refusalOf(node, summary.Message); ok && (worstChild == nil || !followsPods) {
		refused.text = summary.Message
		return refused
	}
	// The operator's message decides which of several objects comes first.
	for _, reference := range mentioned {
		if child := childNamed(node, reference); child != nil && child.Health.Status != status.CurrentStatus {
			found.child = child
			return found
		}
	}
	if summary.Reason == releasev1alpha1.ReasonWaiting || !followsPods || worstChild == nil {
		for _, reference := range mentioned {
			if childNamed(node, reference) == nil {
				found.next, found.optional = &reference, !absence.MatchString(summary.Message)
				if summary.Reason != releasev1alpha1.ReasonWaiting {
					found.verdict = max(found.verdict, missingVerdict(summary.Reason))
				}
				return found
			}
		}
	}
	found.child = worstChild
	return found
}

// absence is how messages say that a mentioned object, or a key of it, should be there.
var absence = regexp.MustCompile(`does not exist|not found|has no key`)

// missingVerdict is the verdict about an object outside the tree that a reason of this name is
// about: an object that someone has to create or correct, or an object that the operator waits for.
func missingVerdict(reason string) Verdict {
	for _, word := range []string{"NotFound", "Missing", "Invalid", "Conflict", "Refused", "Taken"} {
		if strings.Contains(reason, word) {
			return NeedsPerson
		}
	}
	return Waits
}

func ofSuspended(node *Node, suspended *metav1.Condition) finding {
	found := finding{verdict: NeedsPerson, text: suspended.Message}
	switch suspended.Reason {
	case releasev1alpha1.ReasonSuspendedBySpec:
		found.commands = []string{kubectl("patch", node.Reference) + ` --type=merge -p '{"spec":{"suspend":false}}'`}
	case apimeta.ReasonSuspendedByNamespace:
		namespace := Reference{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: node.Namespace}
		found.next = &namespace
	case apimeta.ReasonSuspendedByAnnotation:
		found.commands = []string{fmt.Sprintf("%s %s-", kubectl("annotate", node.Reference), apimeta.AnnotationPaused)}
	default:
		found.commands = []string{kubectl("describe", node.Reference)}
	}
	return found
}

// ofUnseen explains an object whose newest generation the operator has not seen.
func (f facts) ofUnseen(node *Node, summary Summary) finding {
	found := finding{verdict: Waits, text: summary.Message, commands: []string{kubectl("describe", node.Reference)}}
	if f.operator == nil || !f.operator.running {
		return found
	}
	served := f.operator.report.serves(node.Resource, node.GroupVersionKind.GroupKind())
	logs := fmt.Sprintf("kubectl logs -n %s %s", f.operator.lease.Namespace, leaderPod(f.operator.report.Leader))
	late := node.Object.GetCreationTimestamp().Add(firstLook).Before(f.now)
	switch {
	case f.operator.report.Version != "" && !served:
		found.verdict, found.commands = NeedsPerson, []string{logs}
		found.text = "The operator runs and does not serve the kind: its permissions for the kind are missing, or its flags leave it out"
	case late && len(StatusOf(node.Object).Conditions) == 0 && slices.ContainsFunc(node.Object.GetFinalizers(), node.isHeldBy):
		found.verdict, found.commands = NeedsPerson, []string{fmt.Sprintf("kubectl get customresourcedefinition %s -o yaml", node.Resource)}
		found.text = "The operator has seen the object, and its status is empty: set x-kubernetes-preserve-unknown-fields: true on status in the CRD"
	case node.Object.GetGeneration() == 1 && late:
		found.verdict, found.commands = NeedsPerson, []string{logs}
		found.text = "The operator runs and has not looked at the object: its flag --namespaces leaves the namespace out, or its work waits"
	}
	return found
}

// leaderPod returns the name of the pod in the identity of a leader, such as pod_1b2c, for kubectl
// logs. Replicas that share the work have a common identity without a pod, so the result selects
// them all.
func leaderPod(leader string) string {
	pod, _, ok := strings.Cut(leader, "_")
	if !ok {
		return "--selector=app.kubernetes.io/name=demoapp-controller"
	}
	return pod
}

// ofDeleted says why the deletion of an object of the operator waits.
func (f facts) ofDeleted(node *Node, summary Summary) finding {
	found := finding{verdict: Waits, text: summary.Message, commands: []string{kubectl("describe", node.Reference)}}
	var others []string
	own := false
	for _, finalizer := range node.Object.GetFinalizers() {
		if node.isHeldBy(finalizer) {
			own = true
		} else {
			others = append(others, finalizer)
		}
	}
	if !own {
		return finalizersOfOthers(node, others)
	}
	if refused, ok := refusalOf(node, summary.Message); ok {
		refused.text = summary.Message
		return refused
	}
	for _, reference := range f.mentions(node, summary.Message) {
		if child := childNamed(node, reference); child != nil && child.Object != nil {
			found.child = child
			return found
		}
	}
	for _, child := range node.Children {
		if child.Object != nil && child.Object.GetDeletionTimestamp() != nil && len(child.Object.GetFinalizers()) > 0 {
			found.child = child
			return found
		}
	}
	return found
}

// isHeldBy reports whether a finalizer is the operator's.
func (n *Node) isHeldBy(finalizer string) bool {
	return strings.HasPrefix(finalizer, n.GroupVersionKind.Group+"/") || slices.Contains(finalizers, finalizer)
}

// finalizersOfOthers explains a deletion that waits for other controllers.
func finalizersOfOthers(node *Node, finalizers []string) finding {
	if len(finalizers) == 0 {
		return finding{verdict: Waits, text: "The object is being deleted", commands: []string{kubectl("get", node.Reference)}}
	}
	return finding{
		verdict:  NeedsPerson,
		text:     "The deletion waits for finalizers of other controllers: " + strings.Join(finalizers, ", "),
		commands: []string{kubectl("get", node.Reference) + " -o jsonpath='{.metadata.finalizers}'"},
	}
}

// childNamed returns the child that a message names.
func childNamed(node *Node, reference Reference) *Node {
	i := slices.IndexFunc(node.Children, func(child *Node) bool { return child.Kind == reference.Kind && child.Name == reference.Name })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// worst returns the child that is furthest from healthy; nil if all are healthy.
func (f facts) worst(node *Node) *Node {
	var found *Node
	for _, child := range node.Children {
		if rank := f.rankOf(child); rank != 0 && (found == nil || rank < f.rankOf(found)) {
			found = child
		}
	}
	return found
}

// rankOf orders unhealthy objects, those that block most first. It is 0 for a healthy object. Among
// the pods of a controller, a pod that needs help comes before a failed pod, because the controller
// replaces failed pods. A pod that failed long ago comes last.
func (f facts) rankOf(node *Node) int {
	rank := slices.Index(unhealthy, node.Health.Status) + 1
	if rank == 0 || node.GroupVersionKind != pods || node.Object == nil || metav1.GetControllerOf(node.Object) == nil {
		return rank
	}
	pod, err := podOf(node)
	if err != nil {
		return rank
	}
	_, fails, _ := health.Explain(health.PodFacts{Pod: pod, Now: f.now})
	switch failed := health.HasFailed(pod); {
	case failed && !health.FailedLately(pod, f.now):
		return len(unhealthy) + 1
	case failed:
		return 2
	case fails:
		return 1
	default:
		return 3
	}
}

var unhealthy = []status.Status{
	status.FailedStatus, status.NotFoundStatus, status.TerminatingStatus, status.InProgressStatus, status.UnknownStatus,
}

// namespaceFinding explains the annotation that suspends all objects of a namespace, and a
// namespace that is being deleted.
func namespaceFinding(node *Node) finding {
	if node.Object.GetDeletionTimestamp() != nil {
		conditions, _, _ := unstructured.NestedSlice(node.Object.Object, "status", "conditions")
		text := "The namespace is being deleted"
		for _, condition := range conditions {
			fields, _ := condition.(map[string]any)
			if fields["status"] == "True" {
				message, _, _ := unstructured.NestedString(fields, "message")
				text += "; " + message
			}
		}
		return finding{verdict: NeedsPerson, text: text, commands: []string{kubectl("describe", node.Reference)}}
	}
	if value, ok := node.Object.GetAnnotations()[apimeta.AnnotationPaused]; ok {
		return finding{
			verdict: NeedsPerson, text: fmt.Sprintf("The annotation %s is %s", apimeta.AnnotationPaused, cmp.Or(value, `""`)),
			commands: []string{fmt.Sprintf("%s %s-", kubectl("annotate", node.Reference), apimeta.AnnotationPaused)},
		}
	}
	return finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
}
