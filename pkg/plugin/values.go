// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (c *command) values() *cobra.Command {
	var showSecrets bool
	var output string
	cmd := &cobra.Command{
		Use:     "values KIND/NAME",
		Short:   "Show the values that the chart gets, and where each of them comes from",
		Example: "  kubectl demoapp values demoapp/web",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runValues(cmd.Context(), showSecrets, output, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&showSecrets, "show-secrets", false, "show secrets")
	flags.StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

func (c *command) runValues(ctx context.Context, showSecrets bool, output string, args []string) error {
	cluster, owner, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	found, note, err := c.differ(ctx, cluster, owner, showSecrets).Values(ctx, owner)
	if found == nil {
		return err
	}
	if note != nil {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(c.explain(ctx, note)))
	}
	if output != "" {
		return errors.Join(c.printAs(output, found), err)
	}
	rows := [][]cell{{{text: "VALUE"}, {text: "SOURCE"}, {text: "CONTENT"}}}
	for _, value := range found {
		var content strings.Builder
		encoder := json.NewEncoder(&content)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value.Value); err != nil {
			return err
		}
		rows = append(rows, []cell{{text: printable(value.Path)}, {text: printable(value.Source)}, {text: printable(content.String())}})
	}
	c.screen().table(rows)
	return err
}
