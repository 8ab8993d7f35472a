// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/inspect"
)

// appView is an object in the list of all objects.
type appView struct {
	// ID is unique on the page: kind with group, namespace and name.
	ID string `json:"id"`
	// Kind has the group, Word is the kind in commands.
	Kind      string    `json:"kind"`
	Word      string    `json:"word"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	StateText string    `json:"stateText"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Drifted   bool      `json:"drifted,omitempty"`
	Suspended bool      `json:"suspended,omitempty"`
	Revision  int64     `json:"revision,omitempty"`
	Chart     string    `json:"chart,omitempty"`
	Created   time.Time `json:"created"`
}

// states are the names of states in styles.
var states = map[inspect.State]string{
	inspect.StateReady: "ready", inspect.StateNotReady: "waits", inspect.StateNeedsPerson: "person", inspect.StateDeleting: "deleting",
}

func idOf(object inspect.Reference) string {
	return object.GroupKind().String() + "/" + object.Namespace + "/" + object.Name
}

func appViewOf(s inspect.Summary) appView {
	return appView{
		ID: idOf(s.Reference), Kind: s.GroupKind().String(), Word: s.Kind, Namespace: s.Namespace, Name: s.Name,
		State: states[s.State()], StateText: s.State().String(), Reason: clean(s.Reason), Message: clean(s.Message),
		Drifted: s.Drifted, Suspended: s.Suspended, Revision: s.Revision, Chart: clean(s.Chart), Created: s.Created,
	}
}

func appViews(summaries []inspect.Summary) []appView {
	views := make([]appView, 0, len(summaries))
	for _, summary := range summaries {
		views = append(views, appViewOf(summary))
	}
	return views
}

// kindView is a kind, and why its objects are not or not all shown.
type kindView struct {
	Kind   string `json:"kind"`
	Word   string `json:"word"`
	Synced bool   `json:"synced"`
	Error  string `json:"error,omitempty"`
}

// appsMessage is a message of the stream of all objects.
type appsMessage struct {
	// Reset says that objects of earlier messages no longer exist unless they are sent again.
	Reset   bool       `json:"reset,omitempty"`
	Apps    []appView  `json:"apps,omitempty"`
	Removed []string   `json:"removed,omitempty"`
	Kinds   []kindView `json:"kinds,omitempty"`
	Error   string     `json:"error,omitempty"`
	// Last says that the message completes a version.
	Last bool `json:"last,omitempty"`
	// Context, Namespace and Program describe the server.
	Context   string `json:"context,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// appsMessage returns the changes without the objects.
func (s *Server) appsMessage(changes inspect.Changes) appsMessage {
	message := appsMessage{Reset: changes.Reset, Error: cleanError(changes.Err), Context: clean(s.Context), Namespace: s.Namespace}
	for _, removed := range changes.Removed {
		message.Removed = append(message.Removed, idOf(removed))
	}
	for _, kind := range changes.Kinds {
		view := kindView{Kind: kind.GroupKind().String(), Word: kind.GroupVersionKind.Kind, Synced: kind.Synced, Error: cleanError(kind.Err)}
		if view.Error == "" && kind.LeftOut {
			view.Error = "the page does not show all objects, because there are too many; use -n to show one namespace"
		}
		message.Kinds = append(message.Kinds, view)
	}
	return message
}

// pageView is the page of an object.
type pageView struct {
	App         appView         `json:"app"`
	Generation  int64           `json:"generation"`
	Conditions  []conditionView `json:"conditions"`
	Tree        nodeView        `json:"tree"`
	Why         whyView         `json:"why"`
	Events      []eventView     `json:"events"`
	EventsError string          `json:"eventsError,omitempty"`
	// Actions are the actions that the page offers; none without --write.
	Actions      []inspect.Action `json:"actions,omitempty"`
	History      []historyView    `json:"history"`
	HistoryError string           `json:"historyError,omitempty"`
}

// conditionView is a condition. Tone is good, bad or neutral.
type conditionView struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

func conditionViews(conditions []metav1.Condition) []conditionView {
	views := []conditionView{}
	for _, c := range conditions {
		views = append(views, conditionView{clean(c.Type), string(c.Status), clean(c.Reason), clean(c.Message), c.LastTransitionTime.Time})
	}
	return views
}

// maxNodes is the number of objects in a tree on the page.
const maxNodes = 1000

// nodeView is an object in a tree. ID is set for objects of the operator's kinds.
type nodeView struct {
	ID       string     `json:"id,omitempty"`
	Kind     string     `json:"kind"`
	Name     string     `json:"name"`
	Health   string     `json:"health"`
	Message  string     `json:"message,omitempty"`
	Created  *time.Time `json:"created,omitempty"`
	Children []nodeView `json:"children,omitempty"`
	// LeftOut says that children are left out.
	LeftOut bool `json:"leftOut,omitempty"`
}

// nodeViewOf returns a node with its children. room is the number of objects that fit.
func nodeViewOf(node *inspect.Node, room *int) nodeView {
	view := nodeView{Kind: node.Kind, Name: node.Name, Health: string(node.Health.Status), Message: clean(node.Health.Message)}
	if view.Message == "" {
		view.Message = cleanError(node.Err)
	}
	if node.Owned() {
		view.ID = idOf(node.Reference)
	}
	if node.Object != nil {
		created := node.Object.GetCreationTimestamp().Time
		view.Created = &created
	}
	for _, child := range node.Children {
		if *room <= 0 {
			view.LeftOut = true
			break
		}
		*room--
		view.Children = append(view.Children, nodeViewOf(child, room))
	}
	return view
}

// whyView says why an object is not ready.
type whyView struct {
	// Verdict is ready, waits or person; empty with Error.
	Verdict  string     `json:"verdict,omitempty"`
	Text     string     `json:"text,omitempty"`
	Steps    []stepView `json:"steps,omitempty"`
	Commands []string   `json:"commands,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
	Error    string     `json:"error,omitempty"`
}

type stepView struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
}

var verdicts = map[inspect.Verdict]string{inspect.Ready: "ready", inspect.Waits: "waits", inspect.NeedsPerson: "person"}

func whyViewOf(e *inspect.Explanation, err error) whyView {
	if err != nil {
		return whyView{Error: cleanError(err)}
	}
	view := whyView{Verdict: verdicts[e.Verdict], Text: e.Verdict.String(), Commands: cleaned(e.Commands), Notes: cleaned(e.Notes)}
	for _, step := range e.Steps {
		view.Steps = append(view.Steps, stepView{step.Object.Kind, step.Object.Name, clean(step.Text)})
	}
	return view
}

func cleaned(texts []string) []string {
	var found []string
	for _, text := range texts {
		found = append(found, clean(text))
	}
	return found
}

// maxEvents is the number of events on the page.
const maxEvents = 200

type eventView struct {
	Time    time.Time `json:"time"`
	Warning bool      `json:"warning,omitempty"`
	Object  string    `json:"object"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int32     `json:"count,omitempty"`
}

// eventViews returns the newest events, the newest first.
func eventViews(events []corev1.Event) []eventView {
	views := []eventView{}
	for i := len(events) - 1; i >= 0 && len(views) < maxEvents; i-- {
		e := events[i]
		views = append(views, eventView{
			Time: health.LastSeen(e), Warning: e.Type == corev1.EventTypeWarning, Count: e.Count,
			Object: clean(e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name), Reason: clean(e.Reason), Message: clean(e.Message),
		})
	}
	return views
}

type historyView struct {
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time"`
	Action   string    `json:"action,omitempty"`
	Outcome  string    `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	Chart    string    `json:"chart,omitempty"`
	By       string    `json:"by,omitempty"`
	Changed  []string  `json:"changed,omitempty"`
	// Failed says that the action failed; Deployed, that the revision is the deployed one.
	Failed   bool `json:"failed,omitempty"`
	Deployed bool `json:"deployed,omitempty"`
}

func historyViews(lines []inspect.HistoryLine, deployed int64) []historyView {
	views := []historyView{}
	for _, line := range lines {
		views = append(views, historyView{
			Revision: line.Revision, Time: line.Time, Action: clean(line.Action), Outcome: clean(line.Outcome), Reason: clean(line.Reason),
			Chart: clean(line.Chart), By: clean(line.By), Changed: cleaned(line.Changed),
			Failed:   strings.EqualFold(line.Outcome, "failed"),
			Deployed: line.Revision > 0 && line.Revision == deployed,
		})
	}
	return views
}
