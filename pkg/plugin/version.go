// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// versions are the versions of the plugin and of the operator.
type versions struct {
	Plugin   string `json:"plugin"`
	Operator string `json:"operator,omitempty"`
	// Leader is the identity of the operator's leader.
	Leader string `json:"leader,omitempty"`
}

func (c *command) version() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Show the versions of the plugin and of the operator", Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "", "json", "yaml"); err != nil {
				return err
			}
			found, leader := versions{Plugin: cmd.Root().Version}, "none"
			cluster, err := c.cluster()
			if err == nil {
				report, failed := cluster.Report(cmd.Context())
				found.Operator, found.Leader, err = report.Version, report.Leader, failed
			}
			if apierrors.IsForbidden(err) { // Users of a single namespace may seldom read the Lease.
				fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(c.explain(cmd.Context(), err)))
				leader, err = "unknown", nil
			}
			if output != "" {
				if printErr := c.printAs(output, found); printErr != nil {
					return printErr
				}
				return err
			}
			fmt.Fprintf(c.streams.Out, "Plugin:   %s\n", found.Plugin)
			if err == nil {
				fmt.Fprintf(c.streams.Out, "Operator: %s, leader %s\n", printable(cmp.Or(found.Operator, "unknown")), printable(cmp.Or(found.Leader, leader)))
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}
