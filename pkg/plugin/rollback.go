// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// rollbackOptions are the flags of rollback.
type rollbackOptions struct {
	to                     int
	yes, showSecrets, wait bool
	dryRun                 string
	timeout                time.Duration
}

func (c *command) rollback() *cobra.Command {
	var o rollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback KIND/NAME --to REVISION",
		Short: "Write the spec of an earlier revision back",
		Long: "Write the spec of an earlier revision back, after showing what that changes and asking.\n\n" +
			"A record has the values of the chart. Fields that do not become values stay as they are, and secrets are not restored.",
		Example: "  kubectl demoapp rollback demoapp/web --to 2",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runRollback(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.IntVar(&o.to, "to", 0, "revision whose spec is written back")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.wait, "wait", false, "follow the status until the object is ready, or needs a person")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "end of --wait")
	flags.StringVar(&o.dryRun, "dry-run", "none", "none, client or server: show what would be written, and write nothing")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets")
	return cmd
}

func (c *command) runRollback(ctx context.Context, o rollbackOptions, args []string) error {
	if err := oneOf("dry-run", o.dryRun, "none", "client", "server"); err != nil {
		return err
	}
	if o.to < 1 {
		return errors.New("--to: name a revision; kubectl demoapp history lists them")
	}
	cluster, owner, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	differ := c.differ(ctx, cluster, owner, o.showSecrets)
	restored, err := differ.Restore(ctx, owner, o.to)
	if err != nil {
		return err
	}
	found, err := differ.Change(ctx, owner, restored.Owner)
	if err != nil {
		return err
	}
	for _, note := range restored.Notes {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(note))
	}
	if !found[0].Differs() {
		fmt.Fprintf(c.streams.Out, "%s has the restorable spec of revision %d already\n", inspect.ReferenceOf(owner), o.to)
		return nil
	}
	if err := c.printDifferences(found, "live", revisionLabel(o.to)); !errors.As(err, new(answerError)) {
		return err
	}
	if manager := inspect.GitOpsOwner(owner); manager != "" {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s wrote the spec of %s and will write it again; revert the commit instead\n", printable(manager), inspect.ReferenceOf(owner))
	}
	done := func() {
		fmt.Fprintf(c.streams.Out, "%s rolled back to the spec of revision %d%s\n", c.resourceName(owner), o.to, dryRunSuffix[o.dryRun])
	}
	if o.dryRun != "none" {
		done() // The comparison was a dry run on the API server.
		return nil
	}
	if !o.yes && !c.confirmed(fmt.Sprintf("Write the spec of revision %d to %s?", o.to, inspect.ReferenceOf(owner))) {
		return errNotConfirmed
	}
	written, err := cluster.WriteSpec(ctx, owner, restored.Owner)
	if err != nil {
		return err
	}
	done()
	if !o.wait {
		return nil
	}
	return c.await(ctx, cluster, awaited{objects: []*unstructured.Unstructured{written}}, o.timeout)
}

// confirmed asks a question and reports whether the answer is yes.
func (c *command) confirmed(question string) bool {
	fmt.Fprintf(c.streams.ErrOut, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.streams.In).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
