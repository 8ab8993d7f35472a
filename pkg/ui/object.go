// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/message"
)

// errID means that a request names no object.
var errID = errors.New("id: must be KIND.GROUP/NAMESPACE/NAME")

// object returns the object that a request names by its id.
func (s *Server) object(r *http.Request) (inspect.Reference, error) {
	parts := strings.Split(r.URL.Query().Get("id"), "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return inspect.Reference{}, errID
	}
	kind, err := s.cluster().Kind(r.Context(), parts[0])
	if err != nil {
		return inspect.Reference{}, err
	}
	return inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: parts[1], Name: parts[2]}, nil
}

// page returns the message with the page of an object, or with why it cannot be read.
func (s *Server) page(ctx context.Context, object inspect.Reference) (event string, content []byte) {
	view, err := s.readPage(ctx, object)
	event, value := "app", any(view)
	if err != nil {
		event, value = "failed", failure{cleanError(err)}
	}
	if content, err = json.Marshal(value); err != nil {
		return "failed", []byte("{}") // The views can always be encoded.
	}
	return event, content
}

// readPage reads an object and everything about it.
func (s *Server) readPage(ctx context.Context, object inspect.Reference) (pageView, error) {
	release, err := s.turn(ctx)
	if err != nil {
		return pageView{}, err
	}
	defer release()
	cluster := s.cluster()
	root, err := cluster.Tree(ctx, object)
	if err != nil {
		return pageView{}, err
	}
	why, err := cluster.Why(ctx, object, s.Now())
	view := pageView{
		App: appViewOf(inspect.Summarize(root.Object)), Generation: root.Object.GetGeneration(),
		Conditions: conditionViews(inspect.StatusOf(root.Object).Conditions), Why: whyViewOf(why, err),
	}
	if s.Write {
		view.Actions = []inspect.Action{inspect.Reconcile, inspect.Retry, inspect.Suspend}
		if view.App.Suspended {
			view.Actions = []inspect.Action{inspect.Resume}
		}
	}
	room := maxNodes
	view.Tree = nodeViewOf(root, &room)
	var events []corev1.Event
	events, err = cluster.Events(ctx, root)
	view.Events, view.EventsError = eventViews(events), cleanError(err)
	history := cluster.HistoryOf(ctx, root.Object)
	view.History = historyViews(history.Lines, view.App.Revision)
	if len(history.Lines) > 0 || !apierrors.IsNotFound(history.Err) {
		view.HistoryError = cleanError(history.Err)
	}
	return view, nil
}

// turn waits for a place among the reads at the same time.
func (s *Server) turn(ctx context.Context) (release func(), err error) {
	select {
	case s.reads <- struct{}{}:
		return func() { <-s.reads }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read returns the object that a request names, from the API server.
func (s *Server) read(r *http.Request) (*inspect.Cluster, *unstructured.Unstructured, error) {
	reference, err := s.object(r)
	if err != nil {
		return nil, nil, err
	}
	cluster := s.cluster()
	object, err := cluster.Get(r.Context(), reference)
	return cluster, object, err
}

// drift answers with the difference between the live objects and their desired state.
func (s *Server) drift(w http.ResponseWriter, r *http.Request) {
	release, err := s.turn(r.Context())
	if err != nil {
		return // The browser is gone.
	}
	defer release()
	cluster, owner, err := s.read(r)
	if err != nil {
		fail(w, err)
		return
	}
	functions, registered := s.Kinds[owner.GroupVersionKind().GroupKind()]
	differ := inspect.Differ{Cluster: cluster, Functions: functions, Getter: s.Getter}
	found, err := differ.Live(r.Context(), owner)
	if err != nil {
		fail(w, err)
		return
	}
	view := comparisonOf(found)
	report, err := cluster.Report(r.Context())
	if registered && err == nil && report.Version != "" && s.Version != "" && report.Version != s.Version {
		view.Note = fmt.Sprintf("The operator has version %s and this plugin %s; what the operator desires may differ.", clean(report.Version), s.Version)
	}
	answer(w, view)
}

// revisions answers with the difference between two recorded revisions.
func (s *Server) revisions(w http.ResponseWriter, r *http.Request) {
	from, errFrom := strconv.Atoi(r.URL.Query().Get("from"))
	to, errTo := strconv.Atoi(r.URL.Query().Get("to"))
	if errFrom != nil || errTo != nil || from < 1 || to < 1 {
		refuse(w, http.StatusBadRequest, "from and to: must be revisions")
		return
	}
	release, err := s.turn(r.Context())
	if err != nil {
		return // The browser is gone.
	}
	defer release()
	cluster, owner, err := s.read(r)
	if err != nil {
		fail(w, err)
		return
	}
	differ := inspect.Differ{Cluster: cluster, Functions: s.Kinds[owner.GroupVersionKind().GroupKind()], Getter: s.Getter}
	compared, err := differ.CompareRevisions(r.Context(), owner, from, to)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, comparisonOf(append([]inspect.Difference{compared.Values}, compared.Objects...)))
}

const (
	// maxRows is the number of rows of a comparison on the page.
	maxRows = 5000
	// maxCompared is the size of a text that is compared by lines.
	maxCompared = 512 << 10
)

// comparisonView is a comparison of objects.
type comparisonView struct {
	Objects []differenceView `json:"objects"`
	// Compared is the number of objects that were compared, those without a difference included.
	Compared int    `json:"compared"`
	Note     string `json:"note,omitempty"`
}

type differenceView struct {
	Name   string            `json:"name"`
	Rows   []inspect.DiffRow `json:"rows"`
	Fields []string          `json:"fields,omitempty"`
	Note   string            `json:"note,omitempty"`
}

func comparisonOf(differences []inspect.Difference) comparisonView {
	view, room := comparisonView{Objects: []differenceView{}, Compared: len(differences)}, maxRows
	for _, difference := range differences {
		if !difference.Differs() && difference.Note == "" {
			continue
		}
		shown := differenceView{Name: clean(difference.Name()), Note: clean(difference.Note), Rows: []inspect.DiffRow{}}
		for _, field := range difference.Fields {
			shown.Fields = append(shown.Fields, clean(field.Path+" is set by "+field.Manager))
		}
		if len(difference.Before)+len(difference.After) <= maxCompared {
			shown.Rows = difference.SideBySide()
		} else {
			shown.Note = "too large for the page; kubectl demoapp diff shows it"
		}
		if len(shown.Rows) > room {
			shown.Rows, shown.Note = shown.Rows[:room], "cut; kubectl demoapp diff shows the rest"
		}
		room -= len(shown.Rows)
		for i := range shown.Rows {
			shown.Rows[i].Before, shown.Rows[i].After = cleanLine(shown.Rows[i].Before), cleanLine(shown.Rows[i].After)
		}
		view.Objects = append(view.Objects, shown)
	}
	return view
}

// cleanLine is clean for a line in which spaces matter.
func cleanLine(line string) string { return message.Truncate(message.Printable(line), maxText) }
