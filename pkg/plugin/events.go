// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *command) events() *cobra.Command {
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use:     "events KIND/NAME",
		Short:   "Show the events of an object and everything below it, the oldest first",
		Example: "  kubectl demoapp events demoapp/web\n\n  # Go on with new events\n  kubectl demoapp events demoapp/web -w",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runEvents(cmd.Context(), watch, output, args) },
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with new events")
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

func (c *command) runEvents(ctx context.Context, watch bool, output string, args []string) error {
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
	root, err := cluster.Tree(ctx, object)
	if err != nil {
		return err
	}
	events, err := cluster.Events(ctx, root)
	if err != nil {
		return err
	}
	t := &table{screen: c.screen()}
	if err := c.printEvents(t, output, events); err != nil || !watch {
		return err
	}
	printed := map[types.UID]string{}
	for _, event := range events {
		printed[event.UID] = event.ResourceVersion
	}
	return cluster.FollowEvents(ctx, root, func(event corev1.Event) error {
		if printed[event.UID] == event.ResourceVersion {
			return nil
		}
		delete(printed, event.UID) // Only the first list is repeated.
		if output != "" {
			return c.printAs(output, event)
		}
		t.add(c.eventRows([]corev1.Event{event}))
		return nil
	})
}

// printEvents prints a list of events. The table begins even if it is empty, because a watch may
// continue it.
func (c *command) printEvents(t *table, output string, events []corev1.Event) error {
	if output != "" {
		return c.printAs(output, events)
	}
	if len(events) == 0 {
		fmt.Fprintln(c.streams.ErrOut, "No events found.")
	}
	t.add(append([][]cell{{{text: "AGE"}, {text: "OBJECT"}, {text: "REASON"}, {text: "MESSAGE"}}}, c.eventRows(events)...))
	return nil
}
