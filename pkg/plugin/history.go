// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/message"
)

// historyOptions are the flags of history.
type historyOptions struct {
	diff, showSecrets bool
	output            string
}

func (c *command) history() *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "history KIND/NAME [--diff A [B]]",
		Short: "Show the revisions of a release, or compare two of them",
		Long: "Show the revisions of a release: when, why and by whom each of them was made.\n\n" +
			"With --diff, compare the values and the manifests of two revisions. Without the second one, the deployed revision.\n" +
			"Exit codes of --diff: 0 equal, 1 different, 3 failed.",
		Example: "  kubectl demoapp history demoapp/web\n\n  # What revision 3 changed\n  kubectl demoapp history demoapp/web --diff 2 3",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runHistory(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.diff, "diff", false, "compare the values and the manifests of two revisions")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets in a comparison")
	flags.StringVarP(&o.output, "output", "o", "", "output format of the list: json or yaml")
	return cmd
}

func (c *command) runHistory(ctx context.Context, o historyOptions, args []string) error {
	var revisions []int
	if o.diff {
		var err error
		if args, revisions, err = splitRevisions(args); err != nil {
			return err
		}
	}
	cluster, object, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	if o.diff {
		return c.compareRevisions(ctx, cluster, object, revisions, o.showSecrets)
	}
	history := cluster.HistoryOf(ctx, object)
	if history.Err != nil {
		err := fmt.Errorf("%w; the list has only what the status tells", history.Err)
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(c.explain(ctx, err)))
	}
	if o.output != "" {
		return c.printAs(o.output, history.Lines)
	}
	if len(history.Lines) == 0 {
		fmt.Fprintf(c.streams.ErrOut, "%s has no release.\n", inspect.ReferenceOf(object))
		return nil
	}
	c.screen().table(c.historyRows(history.Lines))
	return nil
}

// read reads the object that the arguments name.
func (c *command) read(ctx context.Context, args []string, further ...schema.GroupKind) (*inspect.Cluster, *unstructured.Unstructured, error) {
	cluster, err := c.cluster()
	if err != nil {
		return nil, nil, err
	}
	reference, err := c.object(ctx, cluster, args, further...)
	if err != nil {
		return nil, nil, err
	}
	object, err := cluster.Get(ctx, reference)
	return cluster, object, err
}

// splitRevisions splits the one or two revisions from the end of the arguments. A missing second
// revision is 0, which means the deployed one.
func splitRevisions(args []string) (rest []string, revisions []int, err error) {
	for len(args) > 1 && len(revisions) < 2 {
		number, err := strconv.Atoi(args[len(args)-1])
		if err != nil || number < 1 {
			break
		}
		revisions = append([]int{number}, revisions...)
		args = args[:len(args)-1]
	}
	switch len(revisions) {
	case 0:
		return nil, nil, errors.New("--diff: name one or two revisions, as in history demoapp/web --diff 2 3")
	case 1:
		revisions = append(revisions, 0)
	}
	return args, revisions, nil
}

// historyRows returns the table of a history.
func (c *command) historyRows(lines []inspect.HistoryLine) [][]cell {
	rows := [][]cell{{{text: "REVISION"}, {text: "AGE"}, {text: "ACTION"}, {text: "OUTCOME"}, {text: "CHART"}, {text: "BY"}, {text: "REASON"}}}
	for _, line := range lines {
		outcome := cell{text: printable(line.Outcome)}
		if strings.EqualFold(line.Outcome, string(releasev1alpha1.HistoryFailed)) {
			outcome.color = red
		}
		reason := line.Reason
		if len(line.Changed) > 0 {
			reason = strings.TrimPrefix(reason+": changed "+strings.Join(line.Changed, ", "), ": ")
		}
		rows = append(rows, []cell{
			{text: orNone(line.Revision)},
			{text: age(c.options.Now(), line.Time)},
			{text: line.Action},
			outcome,
			{text: printable(line.Chart)},
			{text: printable(line.By)},
			{text: printable(reason)},
		})
	}
	return rows
}

func (c *command) compareRevisions(
	ctx context.Context, cluster *inspect.Cluster, object *unstructured.Unstructured, revisions []int, showSecrets bool,
) error {
	found, err := c.differ(ctx, cluster, object, showSecrets).CompareRevisions(ctx, object, revisions[0], revisions[1])
	if err != nil {
		return err
	}
	from, to := revisionLabel(revisions[0]), revisionLabel(revisions[1])
	return c.printDifferences(append([]inspect.Difference{found.Values}, found.Objects...), from, to)
}

func revisionLabel(revision int) string {
	if revision == 0 {
		return "deployed revision"
	}
	return "revision " + strconv.Itoa(revision)
}

// printDifferences prints the differences and answers exitWaits if there are any.
func (c *command) printDifferences(differences []inspect.Difference, from, to string) error {
	s, different := c.screen(), false
	for _, difference := range differences {
		if difference.Note != "" {
			fmt.Fprintf(c.streams.ErrOut, "warning: %s: %s\n", difference.Name(), printable(difference.Note))
		}
		different = different || difference.Differs()
		s.unified(difference.Unified(from, to))
		for _, field := range difference.Fields {
			fmt.Fprintln(s.out, s.paint(printable("# "+field.Path+" is set by "+field.Manager), grey))
		}
	}
	if different {
		return answerError(exitWaits)
	}
	return nil
}

// unified prints the text of a unified diff.
func (s screen) unified(text string) {
	for line := range strings.Lines(text) {
		line = message.Printable(strings.TrimSuffix(line, "\n"))
		paint := color(0)
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			paint = blue
		case strings.HasPrefix(line, "@@"):
			paint = grey
		case strings.HasPrefix(line, "-"):
			paint = red
		case strings.HasPrefix(line, "+"):
			paint = green
		}
		fmt.Fprintln(s.out, s.paint(line, paint))
	}
}
