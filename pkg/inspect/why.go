// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/health"
)

// Verdict says who has to act before an object becomes ready.
type Verdict int

const (
	// Ready needs nothing.
	Ready Verdict = iota
	// Waits goes on by itself, for example while pods start.
	Waits
	// NeedsPerson does not go on before someone changes an object.
	NeedsPerson
)

// String returns the verdict in words.
func (v Verdict) String() string {
	return [...]string{"ready", "waits", "needs a person"}[v]
}

// Step is an object on the path from the object that is not ready to the cause, with the finding about it.
type Step struct {
	Object Reference
	// Text is the object's own message. Texts of objects are not trusted: escape them.
	Text string
}

// Explanation says why an object is not ready.
type Explanation struct {
	Verdict Verdict
	// Steps begin with the object that was asked about, and end with the first blocking cause: the
	// object that someone must change, or that takes its time.
	Steps []Step
	// Commands are the commands to type next.
	Commands []string
	// Notes name unreadable objects and further problems.
	Notes []string
}

// Cause returns the last step.
func (e *Explanation) Cause() Step { return e.Steps[len(e.Steps)-1] }

// maxSteps bounds a chain of objects that name each other.
const maxSteps = 24

// Why explains why an object is not ready: it follows the object's own conditions through whatever
// it waits for. It fails if the object itself cannot be read.
func (c *Cluster) Why(ctx context.Context, object Reference, now time.Time) (*Explanation, error) {
	tree, err := c.newTreeReader(ctx)
	if err != nil {
		return nil, err
	}
	root, err := tree.root(ctx, object)
	if err != nil {
		return nil, err
	}
	w := &why{cluster: c, tree: tree, facts: facts{now: now, kinds: tree.byName}, explanation: &Explanation{}}
	w.readOperator(ctx)
	if err := w.follow(ctx, root); err != nil {
		return nil, err
	}
	return w.explanation, nil
}

// why is the search for a cause.
type why struct {
	cluster *Cluster
	tree    *treeReader
	facts   facts

	explanation *Explanation
	// noEvents says that events cannot be read.
	noEvents bool
	// operatorErr is why the Lease cannot be read. It matters only if the operator would have to act.
	operatorErr error
}

// facts are the inputs of a verdict apart from the objects of the tree.
type facts struct {
	now time.Time
	// kinds are the kinds that the API server serves, by name.
	kinds map[string]schema.GroupVersionKind
	// events are the events of the object in question. Events of the operator's kinds repeat
	// conditions and are not read.
	events []corev1.Event
	// node is the node of the pod in question; nil for another object, or if it cannot be read.
	node *corev1.Node
	// operator is nil if the Lease cannot be read.
	operator *operatorFacts
}

// operatorFacts are the facts in the operator's Lease.
type operatorFacts struct {
	lease   Reference
	report  Report
	exists  bool
	running bool
}

// finding says why an object is not ready, according to the object.
type finding struct {
	verdict  Verdict
	text     string
	commands []string
	// child is the object to look at next, next the same for an object outside the tree. Without
	// either, the object is the cause.
	child *Node
	next  *Reference
	// others are the objects to examine if next is healthy.
	others []Reference
	// blamed says that next is the cause if it exists: its own state says nothing about this.
	blamed bool
	// optional says that an absent next is not the cause, because the object itself creates it.
	optional bool
}

func (w *why) note(format string, args ...any) {
	w.explanation.Notes = append(w.explanation.Notes, fmt.Sprintf(format, args...))
}

// readEvents reads the events of an object.
func (w *why) readEvents(ctx context.Context, node *Node) {
	w.facts.events = nil
	if node.Owned() || node.Object == nil || w.noEvents {
		return
	}
	var err error
	if w.facts.events, err = w.cluster.eventsOf(ctx, node.Namespace, node.Object.GetUID()); err != nil {
		w.noEvents = true
		w.note("Events are left out: %v", err)
	}
}

// readNode reads the node of a pod. Most users may not: the pod says less precisely that its node is
// away.
func (w *why) readNode(ctx context.Context, node *Node) {
	w.facts.node = nil
	if node.GroupVersionKind != pods || node.Object == nil {
		return
	}
	name, _, _ := unstructured.NestedString(node.Object.Object, "spec", "nodeName")
	if name == "" {
		return
	}
	object, err := w.cluster.Get(ctx, Reference{GroupVersionKind: nodes, Name: name})
	if err != nil {
		return
	}
	found := &corev1.Node{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found) == nil {
		w.facts.node = found
	}
}

// readOperator reads the operator's report.
func (w *why) readOperator(ctx context.Context) {
	lease := Reference{
		GroupVersionKind: schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
		Namespace:        w.cluster.Operator.Namespace, Name: w.cluster.Operator.Name,
	}
	report, err := w.cluster.Report(ctx)
	switch {
	case err == nil:
		w.facts.operator = &operatorFacts{lease: lease, report: report, exists: true, running: report.Running(w.facts.now)}
	case apierrors.IsNotFound(err):
		w.facts.operator = &operatorFacts{lease: lease}
	default:
		w.operatorErr = fmt.Errorf("whether the operator runs is unknown: %w; ask whoever runs it for: %s", err, kubectl("get", lease))
	}
}

// follow examines one object after the other until it finds the cause.
func (w *why) follow(ctx context.Context, node *Node) error {
	e := w.explanation
	seen := map[Reference]bool{}
	for len(e.Steps) < maxSteps {
		seen[node.Reference] = true
		if !node.ready() {
			w.tree.readLevel(ctx, []*Node{node})
		}
		w.readEvents(ctx, node)
		w.readNode(ctx, node)
		f := w.facts.find(node)
		if f.verdict == Ready && len(e.Steps) > 0 {
			break // A healthy object is not the cause: the object that names it is.
		}
		e.Steps = append(e.Steps, Step{node.Reference, f.text})
		e.Verdict, e.Commands = max(e.Verdict, f.verdict), f.commands
		switch {
		case f.child != nil && !seen[f.child.Reference]:
			node = f.child
			continue
		case f.next == nil || seen[*f.next]:
		default:
			next, err := w.read(ctx, f, *f.next)
			for _, other := range f.others {
				if err != nil || next == nil || next.Health.Status != status.CurrentStatus {
					break
				}
				next, err = w.read(ctx, f, other)
			}
			if err != nil {
				return err
			}
			if next != nil {
				node = next
				continue
			}
		}
		break
	}
	if node.Err != nil {
		w.blamePod(node)
	}
	w.blameOperator()
	return nil
}

// blamePod adds the pod that a message of an owner blames, if the user may not read the way to the
// pod below the last node. The verdict is then the same as for a user with that permission.
func (w *why) blamePod(last *Node) {
	e := w.explanation
	for _, step := range slices.Backward(e.Steps) {
		pod, problem := health.FailureIn(step.Text)
		if pod == "" {
			continue
		}
		object := Reference{pods, last.Namespace, pod}
		e.Verdict, e.Steps = NeedsPerson, append(e.Steps, Step{object, problem})
		e.Commands = []string{kubectl("describe", object)}
		w.note("%v; the message of %s names the pod", last.Err, step.Object)
		return
	}
}

// read reads an object outside the tree that the last step names. It returns nil if the object is
// the cause, because it is blamed or absent, or if it cannot be read.
func (w *why) read(ctx context.Context, f finding, object Reference) (*Node, error) {
	e := w.explanation
	switch object.GroupVersionKind {
	case webhooks:
		object = w.cluster.webhookConfiguration(ctx, object)
		fallthrough
	case users, crds:
		// Only the name is known. The object that was refused has the text.
		e.Steps = append(e.Steps, Step{Object: object})
		return nil, nil
	}
	if mapping, err := w.cluster.mapping(object.GroupVersionKind); err == nil {
		object.Namespace = namespaceFor(mapping, object.Namespace)
	}
	node, err := w.tree.root(ctx, object)
	switch {
	case err == nil && f.blamed:
		e.Steps = append(e.Steps, Step{Object: object})
	case err == nil:
		return node, nil
	case apierrors.IsNotFound(err) && f.optional:
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		e.Steps = append(e.Steps, Step{object, "The object does not exist"})
		e.Verdict, e.Commands = NeedsPerson, []string{supply(object, f.text)}
	case apierrors.IsForbidden(err):
		e.Steps = append(e.Steps, Step{object, "You may not read the object"})
		e.Verdict = max(e.Verdict, Waits)
		w.note("%v; ask whoever may for: %s", err, kubectl("describe", object))
	default:
		return nil, err
	}
	return nil, nil
}

// blameOperator adds the operator as the cause if it would have to act and does not run.
func (w *why) blameOperator() {
	e, operator := w.explanation, w.facts.operator
	if e.Verdict == Waits && w.operatorErr != nil {
		w.note("%v", w.operatorErr)
	}
	if operator == nil || operator.running {
		return
	}
	text := "No replica of the operator holds the lease"
	if !operator.exists {
		text = "The Lease of the operator does not exist: is it installed, under this name, and does it run with leader election?"
	} else if operator.report.Leader != "" {
		text = fmt.Sprintf("The leader %s has not renewed the lease since %s", operator.report.Leader, operator.report.Renewed.UTC().Format(time.RFC3339))
	}
	if e.Verdict != Waits {
		e.Notes = append(e.Notes, "The operator does not run: "+text)
		return
	}
	e.Verdict = NeedsPerson
	e.Steps = append(e.Steps, Step{operator.lease, text})
	e.Commands = []string{fmt.Sprintf("kubectl get pods -n %s", operator.lease.Namespace), kubectl("describe", operator.lease)}
}

// find returns why an object is not ready, according to the object. It decides from the facts alone.
func (f facts) find(node *Node) finding {
	switch {
	case node.Object == nil && node.Err != nil:
		return finding{verdict: Waits, text: node.Err.Error(), commands: []string{kubectl("describe", node.Reference)}}
	case node.Object == nil:
		return finding{verdict: Waits, text: "The object does not exist", commands: []string{kubectl("get", node.Reference)}}
	case node.Owned():
		return f.ofOwned(node)
	case node.Object.GetDeletionTimestamp() != nil:
		return f.ofTerminating(node)
	case node.Kind == "Pod" && node.Group == "":
		return f.ofPod(node)
	default:
		return f.ofOther(node)
	}
}

// webhookConfiguration returns the configuration that has an admission webhook, and the webhook
// itself if none can be found.
func (c *Cluster) webhookConfiguration(ctx context.Context, webhook Reference) Reference {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		configurations, err := c.List(ctx, schema.GroupVersionKind{Group: policies.Group, Version: "v1", Kind: kind}, "", "")
		if err != nil {
			return webhook
		}
		for _, configuration := range configurations {
			entries, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
			for _, entry := range entries {
				if fields, ok := entry.(map[string]any); ok && fields["name"] == webhook.Name {
					return ReferenceOf(configuration)
				}
			}
		}
	}
	return webhook
}

// mention is an object in a message of the operator, such as: Secret "web", ConfigMap shop/web, or
// in a list of unhealthy objects, Deployment web: Available.
var mention = regexp.MustCompile(`(?:^|; )([A-Z][A-Za-z]{2,62}) ([a-z0-9][a-z0-9.-]{0,252}): ` +
	`|\b([A-Z][A-Za-z]{2,62}) (?:"([a-z0-9][a-z0-9.-]{0,252})"|([a-z0-9-]{1,63})/([a-z0-9][a-z0-9.-]{0,252}))`)

// mentions returns the objects that a message names, without the object itself.
func (f facts) mentions(node *Node, message string) []Reference {
	var found []Reference
	for _, match := range mention.FindAllStringSubmatch(message, -1) {
		kind, served := f.kinds[cmp.Or(match[1], match[3])]
		reference := Reference{kind, cmp.Or(match[5], node.Namespace), cmp.Or(match[2], match[4], match[6])}
		if served && reference != node.Reference {
			found = append(found, reference)
		}
	}
	return found
}

// wantedKey finds the key that an absent Secret or ConfigMap is to hold, in the message of the object
// that needs it.
var wantedKey = regexp.MustCompile(`which is to hold key "([-._a-zA-Z0-9]{1,253})"`)

// supply returns the command that creates an absent object, which a message names, or that shows
// which objects of its kind exist: its name may be mistyped.
func supply(object Reference, message string) string {
	place, key := object.Name, "KEY"
	if match := wantedKey.FindStringSubmatch(message); match != nil {
		key = match[1]
	}
	if object.Namespace != "" {
		place += " -n " + object.Namespace
	}
	switch object.GroupVersionKind {
	case secrets:
		return "kubectl create secret generic " + place + " --from-literal=" + key + "=VALUE"
	case configMaps:
		return "kubectl create configmap " + place + " --from-literal=" + key + "=VALUE"
	case namespaces:
		return "kubectl create namespace " + place
	}
	object.Name = ""
	return strings.Join(strings.Fields(kubectl("get", object)), " ")
}

// kubectl returns a command about an object, such as "kubectl describe pod web-1 -n shop".
func kubectl(verb string, object Reference) string {
	name := strings.ToLower(object.Kind)
	if !object.IsBuiltIn() {
		name += "." + object.Group
	}
	command := fmt.Sprintf("kubectl %s %s %s", verb, name, object.Name)
	if object.Namespace != "" {
		command += " -n " + object.Namespace
	}
	return command
}
