// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// writeOptions are the flags of the commands that write requests.
type writeOptions struct {
	selection

	yes, wait              bool
	reason, dryRun, output string
	timeout                time.Duration
}

// done describes a completed action, in the past tense.
var done = map[inspect.Action]string{
	inspect.Reconcile: "requested to reconcile", inspect.Retry: "requested to retry", inspect.Suspend: "suspended", inspect.Resume: "resumed",
}

func (c *command) reconcile() *cobra.Command {
	return c.write(inspect.Reconcile, &cobra.Command{
		Short: "Start a full reconcile now",
		Long: "Start a full reconcile of objects now: gates are evaluated again, and what waits for a backoff is tried again.\n" +
			"Nothing is rolled out that would not be rolled out anyway.",
		Example: "  kubectl demoapp reconcile demoapp/web --wait\n\n  # All objects of a namespace\n  kubectl demoapp reconcile --all -n shop",
	})
}

func (c *command) retry() *cobra.Command {
	return c.write(inspect.Retry, &cobra.Command{
		Short: "Start an upgrade again that failed or was given up",
		Long: "Start a full reconcile of objects now. For a kind with a release, also start an upgrade, although nothing changed or its attempts\n" +
			"were given up. The upgrade applies all objects of the release, and does not wait for the upgrade window.",
		Example: "  kubectl demoapp retry demoapp/web --wait",
	})
}

func (c *command) suspend() *cobra.Command {
	return c.write(inspect.Suspend, &cobra.Command{
		Short: "Freeze objects: the operator changes neither them nor their children",
		Long: "Freeze objects by an annotation. The operator changes neither them nor their children before you resume them.\n\n" +
			"--all suspends the objects that exist now. To suspend also those that are created later, annotate the Namespace:\n" +
			"kubectl annotate namespace shop demo.example.com/paused=true",
		Example: "  kubectl demoapp suspend demoapp/web --reason \"moving the database\"\n\n" +
			"  # Maintenance of a namespace\n  kubectl demoapp suspend --all -n shop --reason \"maintenance until 18:00\"",
	})
}

func (c *command) resume() *cobra.Command {
	return c.write(inspect.Resume, &cobra.Command{
		Short:   "End a suspension",
		Long:    "End a suspension: remove the annotation, and set spec.suspend to false if the field suspends the object.",
		Example: "  kubectl demoapp resume demoapp/web --wait\n\n  kubectl demoapp resume --all -n shop",
	})
}

// write completes a command that writes a request to objects.
func (c *command) write(action inspect.Action, cmd *cobra.Command) *cobra.Command {
	var o writeOptions
	cmd.Use = string(action) + " (KIND/NAME ... | KIND -l LABELS | --all)"
	cmd.ValidArgsFunction = c.completeMany
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.runWrite(cmd.Context(), action, o, args) }
	flags := cmd.Flags()
	o.addFlags(flags)
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.wait, "wait", false, "follow the status until the objects are ready, or need a person")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "end of --wait")
	flags.StringVar(&o.dryRun, "dry-run", "none", "none, client or server: show what would be written, and write nothing")
	flags.StringVarP(&o.output, "output", "o", "", "output format: json, yaml or name")
	if action == inspect.Suspend {
		flags.StringVar(&o.reason, "reason", "", "why the objects are suspended; their status shows it")
	}
	return cmd
}

func (c *command) runWrite(ctx context.Context, action inspect.Action, o writeOptions, args []string) error {
	if err := errors.Join(oneOf("dry-run", o.dryRun, "none", "client", "server"), oneOf("output", o.output, "", "json", "yaml", "name")); err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	objects, err := c.selected(ctx, cluster, o.selection, args)
	if err != nil {
		return err
	}
	request := inspect.Request{Action: action, Reason: o.reason, At: c.options.Now(), DryRun: strings.TrimPrefix(o.dryRun, "none")}
	if request.DryRun == "" && !o.yes {
		verb := string(action)
		c.printTargets(objects, o.allNamespaces)
		if !c.confirmed(fmt.Sprintf("%s %s?", strings.ToUpper(verb[:1])+verb[1:], c.nameTargets(objects))) {
			return errNotConfirmed
		}
	}
	written, handled, failed := c.writeAll(ctx, cluster, objects, request, o.output == "")
	if o.output != "" {
		if err := c.printObjects(o.output, inspect.Mask{}, getOptions{sort: "name"}.selected(written)); err != nil {
			return err
		}
	}
	switch {
	case failed:
		return answerError(exitFailed)
	case o.wait && request.DryRun == "":
		return c.await(ctx, cluster, awaited{objects: written, handled: handled, suspended: action == inspect.Suspend}, o.timeout)
	default:
		return nil
	}
}

// errNotConfirmed is the answer to a question that was not answered with yes.
var errNotConfirmed = errors.New("nothing was written; answer y, or use --yes")

// nameTargets returns the object, or the number of objects and namespaces, for a question.
func (c *command) nameTargets(objects []*unstructured.Unstructured) string {
	if len(objects) == 1 {
		name := printable(inspect.ReferenceOf(objects[0]).String())
		if namespace := objects[0].GetNamespace(); namespace != "" {
			name += " in namespace " + namespace
		}
		return name
	}
	namespaces := map[string]bool{}
	for _, object := range objects {
		namespaces[object.GetNamespace()] = true
	}
	if len(namespaces) == 1 {
		return fmt.Sprintf("these %d objects in namespace %s", len(objects), objects[0].GetNamespace())
	}
	return fmt.Sprintf("these %d objects in %d namespaces", len(objects), len(namespaces))
}

// maxTargets is the number of objects that a question lists.
const maxTargets = 20

// printTargets lists the objects of a question about several objects.
func (c *command) printTargets(objects []*unstructured.Unstructured, withNamespaces bool) {
	if len(objects) == 1 {
		return
	}
	for i, object := range objects {
		if i == maxTargets {
			fmt.Fprintf(c.streams.ErrOut, "  and %d more\n", len(objects)-maxTargets)
			return
		}
		fmt.Fprintf(c.streams.ErrOut, "  %s\n", c.label(object, withNamespaces))
	}
}

// label names an object in a line.
func (c *command) label(object *unstructured.Unstructured, withNamespace bool) string {
	name := printable(inspect.ReferenceOf(object).String())
	if withNamespace && object.GetNamespace() != "" {
		return object.GetNamespace() + " " + name
	}
	return name
}

// writeAll writes the request to each object, and with lines prints a line about each. A failure
// does not end the command. Equal failures are printed once.
func (c *command) writeAll(
	ctx context.Context, cluster *inspect.Cluster, objects []*unstructured.Unstructured, request inspect.Request, lines bool,
) (written []*unstructured.Unstructured, handled string, failed bool) {
	var failures []failedObjects
	for _, object := range objects {
		outcome, err := cluster.DoTo(ctx, object, request)
		if err != nil {
			failed = true
			name := inspect.ReferenceOf(object)
			text := c.explain(ctx, err)
			// Messages about the same failure differ in the name of the object.
			same := strings.ReplaceAll(text, strconv.Quote(object.GetName()), "")
			if i := slices.IndexFunc(failures, func(f failedObjects) bool { return f.same == same }); i >= 0 {
				failures[i].more++
				continue
			}
			failures = append(failures, failedObjects{same: same, line: fmt.Sprintf("%s: %s", printable(name.String()), printable(text))})
			continue
		}
		for _, warning := range outcome.Warnings {
			fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(warning))
		}
		written, handled = append(written, outcome.Object), outcome.Handled
		if lines {
			what := done[request.Action]
			if request.Action == inspect.Resume && !outcome.Changed {
				what = "unchanged: neither an annotation nor spec.suspend suspends it"
			}
			fmt.Fprintf(c.streams.Out, "%s %s%s\n", c.resourceName(object), what, dryRunSuffix[request.DryRun])
		}
	}
	for _, failure := range failures {
		fmt.Fprintf(c.streams.ErrOut, "error: %s\n", failure.line)
		if failure.more > 0 {
			fmt.Fprintf(c.streams.ErrOut, "error: the same for %d more objects\n", failure.more)
		}
	}
	return written, handled, failed
}

// failedObjects are objects to which a request could not be written for the same reason.
type failedObjects struct {
	// same is the text that the failures share, and line the failure of the first object.
	same, line string
	// more is the number of further objects.
	more int
}

// dryRunSuffix ends the line about a written object, as in kubectl.
var dryRunSuffix = map[string]string{"client": " (dry run)", "server": " (server dry run)"}

// resourceName names an object as kubectl does after a write.
func (c *command) resourceName(object *unstructured.Unstructured) string {
	return printable(strings.ToLower(object.GetKind()) + "." + object.GroupVersionKind().Group + "/" + object.GetName())
}
