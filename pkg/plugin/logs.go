// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	file, output string
	since        time.Duration
	tail         int
	follow       bool
}

func (c *command) logs() *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs KIND/NAME [-f FILE]",
		Short: "Show the operator's log lines about an object",
		Long: "Show the operator's log lines about an object, from the pods of all replicas or from a file. The operator has to run with\n" +
			"--logging-format=json.",
		Example: "  kubectl demoapp logs demoapp/web --since=1h\n\n  # Without access to the operator's pods\n  kubectl demoapp logs demoapp/web -f operator.log",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runLogs(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "file with the log; - reads standard input")
	flags.DurationVar(&o.since, "since", 0, "only lines that are not older, such as 1h")
	flags.IntVar(&o.tail, "tail", 1000, "number of the newest lines to show; not with --follow")
	flags.BoolVar(&o.follow, "follow", false, "go on with new lines")
	flags.StringVarP(&o.output, "output", "o", "", "output format: json prints the lines as they are")
	return cmd
}

func (c *command) runLogs(ctx context.Context, o logsOptions, args []string) error {
	switch err := oneOf("output", o.output, "", "json"); {
	case err != nil:
		return err
	case o.tail < 1:
		return errors.New("--tail: must be at least 1")
	case o.follow && o.file != "":
		return errors.New("--follow reads the operator's pods; leave out --filename, or pipe the log to -f -")
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	object, err := c.object(ctx, cluster, args)
	if err != nil {
		return err
	}
	s := c.screen()
	shown := false
	show := func(line inspect.LogLine) {
		shown = true
		c.printLogLine(s, line, o.output)
	}
	kept := &newest{limit: o.tail, show: show}
	found := kept.add
	if o.follow || o.file == "-" {
		found = show // A pipe may not end.
	}
	other := 0
	lines := &inspect.LogLines{Found: c.since(o.since, found), Other: func() {
		if other++; other == 1 && o.follow { // The log may not end.
			fmt.Fprintf(c.streams.ErrOut, "warning: lines that are not JSON are skipped; %s\n", wantsJSON)
		}
	}}
	if o.file != "" {
		err = c.readLogFile(o.file, object, lines)
	} else {
		err = cluster.ReadOperatorLogs(ctx, object, o.since, o.follow, lines)
	}
	kept.print()
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; without the permission, ask for a file with the log and use -f FILE", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; if the operator runs without this Deployment, use -f FILE with its log", err)
	case err != nil:
		return err
	case other > 0 && lines.JSON == 0:
		return fmt.Errorf("the log is not JSON, so its %d lines do not tell their object; %s", other, wantsJSON)
	case other > 0 && !o.follow:
		fmt.Fprintf(c.streams.ErrOut, "warning: %d lines are not JSON and were skipped; %s\n", other, wantsJSON)
	}
	if shown {
		return nil
	}
	// The log may have lines about an object that was deleted.
	if _, err := cluster.Get(ctx, object); apierrors.IsNotFound(err) {
		return fmt.Errorf("no lines about %s: %w", object, err)
	}
	fmt.Fprintf(c.streams.ErrOut, "No lines about %s found.\n", printable(object.String()))
	return nil
}

// wantsJSON says how the operator writes the log that the command reads.
const wantsJSON = "run the operator with --logging-format=json, or logging.format: json of its chart"

// since returns found for the lines that are not older than a duration; 0 for all lines.
func (c *command) since(age time.Duration, found func(inspect.LogLine)) func(inspect.LogLine) {
	if age == 0 {
		return found
	}
	begin := c.options.Now().Add(-age)
	return func(line inspect.LogLine) {
		if !line.Time.Before(begin) {
			found(line)
		}
	}
}

func (c *command) readLogFile(name string, object inspect.Reference, lines *inspect.LogLines) error {
	log := c.streams.In
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // The user names the file.
		if err != nil {
			return fmt.Errorf("--filename: %w", err)
		}
		defer file.Close()
		log = file
	}
	return inspect.ReadLog(log, object, lines)
}

// newest keeps the newest lines of several logs.
type newest struct {
	limit int
	show  func(inspect.LogLine)
	lines []inspect.LogLine
}

func (n *newest) add(line inspect.LogLine) {
	if n.lines = append(n.lines, line); len(n.lines) >= 2*n.limit {
		n.cut()
	}
}

// cut sorts the lines by time and drops the oldest beyond the limit.
func (n *newest) cut() {
	slices.SortStableFunc(n.lines, func(a, b inspect.LogLine) int { return a.Time.Compare(b.Time) })
	n.lines = slices.Clone(n.lines[max(0, len(n.lines)-n.limit):])
}

func (n *newest) print() {
	n.cut()
	for _, line := range n.lines {
		n.show(line)
	}
}

// hiddenFields are the same for all lines of an object, or only for programs.
var hiddenFields = []string{"controller", "object", "reconcileID", "generation"}

// printLogLine prints a line: time, level, message, and the other fields in the order of their
// names.
func (c *command) printLogLine(s screen, line inspect.LogLine, output string) {
	if output == "json" {
		fmt.Fprintln(s.out, printable(line.Raw))
		return
	}
	colors := map[string]color{"ERROR": red, "WARN": yellow, "DEBUG": grey}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s", line.Time.UTC().Format(time.RFC3339), s.paint(fmt.Sprintf("%-5s", printable(line.Level)), colors[line.Level]), printable(line.Message))
	for _, field := range slices.Sorted(maps.Keys(line.Fields)) {
		if !slices.Contains(hiddenFields, field) {
			fmt.Fprintf(&text, " %s=%s", s.paint(printable(field), grey), printable(fieldText(line.Fields[field])))
		}
	}
	fmt.Fprintln(s.out, text.String())
}

// fieldText returns the value of a field, in quotes if it has spaces.
func fieldText(value any) string {
	if text, ok := value.(string); ok {
		if strings.ContainsAny(text, " \"=") {
			return strconv.Quote(text)
		}
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
