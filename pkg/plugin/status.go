// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/inspect"
)

// maxEvents is the number of events that status shows.
const maxEvents = 8

func (c *command) status() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "status KIND/NAME",
		Short:   "Show one object on one screen: conditions, release, objects and events",
		Example: "  kubectl demoapp status demoapp/web\n  kubectl demoapp status postgresql/db -n shop",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runStatus(cmd.Context(), output, args) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

// statusView is the status of an object in JSON and YAML.
type statusView struct {
	State      string                           `json:"state"`
	Reason     string                           `json:"reason,omitempty"`
	Message    string                           `json:"message,omitempty"`
	Generation int64                            `json:"generation"`
	Conditions []metav1.Condition               `json:"conditions,omitempty"`
	Release    *releasev1alpha1.DeployedRelease `json:"release,omitempty"`
	History    []releasev1alpha1.HistoryEntry   `json:"history,omitempty"`
	Objects    nodeView                         `json:"objects"`
	Events     []corev1.Event                   `json:"events,omitempty"`
}

func statusViewOf(root *inspect.Node, events []corev1.Event) statusView {
	summary, status := inspect.Summarize(root.Object), inspect.StatusOf(root.Object)
	return statusView{
		State: summary.State().String(), Reason: summary.Reason, Message: summary.Message, Generation: root.Object.GetGeneration(),
		Conditions: status.Conditions, Release: status.Release.DeployedRelease, History: status.Release.History,
		Objects: treeView(root), Events: events,
	}
}

func (c *command) runStatus(ctx context.Context, output string, args []string) error {
	if err := oneOf("output", output, "", "json", "yaml"); err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	object, err := c.object(ctx, cluster, args)
	if err != nil {
		return err
	}
	root, err := cluster.Overview(ctx, object)
	if err != nil {
		return err
	}
	events, eventsErr := cluster.Events(ctx, root)
	if output != "" {
		if eventsErr != nil {
			fmt.Fprintf(c.streams.ErrOut, "warning: events are left out: %s\n", printable(eventsErr.Error()))
		}
		return c.printAs(output, statusViewOf(root, events))
	}
	s := c.screen()
	c.printHead(s, root)
	c.printConditions(s, inspect.StatusOf(root.Object))
	c.printRelease(s, inspect.StatusOf(root.Object).Release)
	s.title("Objects")
	s.table(c.treeRows(root)[1:])
	s.title("Events")
	switch {
	case eventsErr != nil:
		s.wrapped(printable(eventsErr.Error()), "")
	case len(events) == 0:
		fmt.Fprintln(s.out, "none")
	default:
		s.table(c.eventRows(events[max(0, len(events)-maxEvents):]))
	}
	return nil
}

// title begins a part of the screen.
func (s screen) title(text string) { fmt.Fprintf(s.out, "\n%s\n", s.paint(text, blue)) }

func (c *command) printHead(s screen, root *inspect.Node) {
	summary := inspect.Summarize(root.Object)
	in := ""
	if root.Namespace != "" {
		in = " in namespace " + root.Namespace
	}
	s.wrapped(printable(fmt.Sprintf("%s%s, generation %d, age %s", root, in, root.Object.GetGeneration(), age(c.options.Now(), summary.Created))), "")
	s.wrappedBehind(cell{summary.State().String() + ":", readyColor(summary)}, printable(cmp.Or(summary.Message, summary.Reason)), "")
}

func readyColor(s inspect.Summary) color {
	switch s.State() {
	case inspect.StateReady:
		return green
	case inspect.StateNeedsPerson:
		return red
	default:
		return yellow
	}
}

// printConditions prints all conditions.
func (c *command) printConditions(s screen, status inspect.Status) {
	var rows [][]cell
	for _, condition := range status.Conditions {
		rows = append(rows, []cell{
			{text: printable(condition.Type)},
			{text: printable(string(condition.Status)), color: conditionColor(condition)},
			{text: age(c.options.Now(), condition.LastTransitionTime.Time)},
			{text: printable(cmp.Or(condition.Message, condition.Reason))},
		})
	}
	if rows == nil {
		return
	}
	slices.SortFunc(rows, func(a, b []cell) int { return cmp.Compare(a[0].text, b[0].text) })
	s.title("Conditions")
	s.table(rows)
}

// conditionColor is red for a condition that says that something is wrong.
func conditionColor(condition metav1.Condition) color {
	wrong := metav1.ConditionFalse
	switch condition.Type {
	case apimeta.ConditionStalled, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionRemediated:
		wrong = metav1.ConditionTrue
	case apimeta.ConditionReconciling, apimeta.ConditionSuspended, releasev1alpha1.ConditionUpgradeHeld:
		return yellow
	}
	if condition.Status == wrong {
		return red
	}
	return 0
}

func (c *command) printRelease(s screen, release releasev1alpha1.ReleaseStatus) {
	if deployed := release.DeployedRelease; deployed != nil {
		s.title("Release")
		s.wrapped(printable(fmt.Sprintf("%s, revision %d, chart %s %s", deployed.Name, deployed.Revision, deployed.Chart, deployed.ChartVersion)), "")
	}
	var rows [][]cell
	for _, entry := range release.History {
		outcome := cell{text: string(entry.Outcome)}
		if entry.Outcome != releasev1alpha1.HistorySucceeded {
			outcome.color = red
		}
		why := []string{string(entry.Reason)}
		if len(entry.Changed) > 0 {
			why = append(why, "changed "+strings.Join(entry.Changed, ", "))
		}
		revision := ""
		if entry.Revision > 0 {
			revision = "revision " + strconv.FormatInt(entry.Revision, 10)
		}
		rows = append(rows, []cell{
			{text: age(c.options.Now(), entry.Time.Time)},
			{text: string(entry.Action)},
			outcome,
			{text: revision},
			{text: printable(strings.Join(why, ": "))},
		})
	}
	s.table(rows)
}

// eventRows returns the table of events.
func (c *command) eventRows(events []corev1.Event) [][]cell {
	var rows [][]cell
	for _, event := range events {
		kind := cell{text: printable(event.Reason)}
		if event.Type == corev1.EventTypeWarning {
			kind.color = yellow
		}
		rows = append(rows, []cell{
			{text: age(c.options.Now(), health.LastSeen(event))},
			{text: printable(event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name)},
			kind,
			{text: printable(event.Message)},
		})
	}
	return rows
}
