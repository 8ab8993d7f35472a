// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/scaffold"
)

// createKindOptions are the flags of create kind.
type createKindOptions struct {
	scaffold.Options

	values, output string
	force          bool
}

func (c *command) create() *cobra.Command {
	cmd := &cobra.Command{Use: "create", Short: "Write the files of a new kind"}
	cmd.AddCommand(c.createKind())
	return cmd
}

func (c *command) createKind() *cobra.Command {
	var o createKindOptions
	cmd := &cobra.Command{
		Use:   "kind --chart DIR",
		Short: "Make a kind of a chart: CRD, RBAC, roles of users, entry of watches.yaml, example",
		Example: "  # Look at the CRD and the roles\n  kubectl demoapp create kind --chart charts/memcached --group cache.example.com\n\n" +
			"  # Write the files\n  kubectl demoapp create kind --chart charts/memcached --group cache.example.com --output kinds/memcached",
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runCreateKind(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Chart, "chart", "", "directory or archive of the chart; the entry of watches.yaml has the same path")
	flags.StringVar(&o.Group, "group", "charts.example.com", "API group of the kind")
	flags.StringVar(&o.Version, "version", "v1alpha1", "version of the kind")
	flags.StringVar(&o.Kind, "kind", "", "the kind; by default the name of the chart in CamelCase")
	flags.StringVar(&o.Plural, "plural", "", "plural name of the resource; by default that of the kind")
	flags.StringVar(&o.values, "values", "", "file with values without which the chart does not render; the example has them")
	flags.StringVar(&o.output, "output", "", "directory for the files; by default, the objects are printed")
	flags.BoolVar(&o.force, "force", false, "overwrite existing files")
	if err := cmd.MarkFlagRequired("chart"); err != nil {
		panic(err) // The flag is defined above.
	}
	return cmd
}

func (c *command) runCreateKind(ctx context.Context, o createKindOptions) error {
	loaded, err := loadChart(o.Chart)
	if err != nil {
		return err
	}
	if o.values != "" {
		if o.Values, err = os.ReadFile(o.values); err != nil {
			return fmt.Errorf("--values: %w", err)
		}
	}
	o.Operator = c.options.Operator
	result, err := scaffold.New(ctx, loaded, o.Options)
	if err != nil {
		return fmt.Errorf("chart %s: %w", o.Chart, err)
	}
	if c.options.Scheme != nil && len(c.options.Scheme.VersionsForGroupKind(result.Kind.GroupKind())) > 0 {
		return fmt.Errorf("%s is a kind of the operator, whose CRD would be replaced: use another --kind or --group", result.Kind.GroupKind())
	}
	for _, line := range result.Widened {
		fmt.Fprintf(c.streams.ErrOut, "widened: crd.yaml: %s\n", printable(line))
	}
	switch {
	case len(result.Widened) > 0 && result.HasSchema:
		fmt.Fprintln(c.streams.ErrOut, "The CRD accepts more there. The operator still refuses values that values.schema.json does not allow.")
	case len(result.Widened) > 0:
		fmt.Fprintln(c.streams.ErrOut, "The CRD accepts any value there. For types, add a values.schema.json to the chart.")
	}
	for _, note := range result.Notes {
		fmt.Fprintf(c.streams.ErrOut, "note: %s\n", printable(note))
	}
	if o.output == "" {
		return c.printKind(result)
	}
	return c.writeKind(result, o)
}

// loadChart reads a chart from a directory or an archive.
func loadChart(path string) (*chart.Chart, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--chart: %w", err)
	}
	if info.IsDir() {
		loaded, err := chart.LoadDir(path)
		if err != nil {
			return nil, fmt.Errorf("--chart %s: %w", path, err)
		}
		return loaded, nil
	}
	file, err := os.Open(path) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, fmt.Errorf("--chart: %w", err)
	}
	defer file.Close()
	loaded, err := chart.LoadArchive(file)
	if err != nil {
		return nil, fmt.Errorf("--chart %s: %w", path, err)
	}
	return loaded, nil
}

// printKind prints the objects, which "kubectl apply" accepts, and the other files as comments.
func (c *command) printKind(result scaffold.Result) error {
	for _, file := range result.Files {
		text := file.Content
		if !file.Object {
			text = "# " + file.Name + "\n#\n" + commented(text)
		}
		if _, err := fmt.Fprintf(c.streams.Out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// commented returns a text as comments.
func commented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	return b.String()
}

// writeKind writes all files, or none if one exists.
func (c *command) writeKind(result scaffold.Result, o createKindOptions) error {
	for _, file := range result.Files {
		path := filepath.Join(o.output, file.Name)
		_, err := os.Lstat(path)
		if err == nil && !o.force {
			return fmt.Errorf("%s exists; choose another --output, or overwrite it with --force", path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--output: %w", err)
		}
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil { //nolint:gosec // The files have no secrets, and others may read them.
		return fmt.Errorf("--output: %w", err)
	}
	for _, file := range result.Files {
		path := filepath.Join(o.output, file.Name)
		if err := os.WriteFile(path, []byte(file.Content), 0o644); err != nil { //nolint:gosec // As above.
			return fmt.Errorf("--output: %w", err)
		}
		fmt.Fprintln(c.streams.Out, path)
	}
	fmt.Fprintf(c.streams.ErrOut, "Next: kubectl apply -f %s, add %s to the file of --watches-file, then kubectl apply -f %s\n",
		strings.Join([]string{
			filepath.Join(o.output, "crd.yaml"), filepath.Join(o.output, "rbac.yaml"), filepath.Join(o.output, "user-roles.yaml"),
		}, " -f "),
		filepath.Join(o.output, "watches.yaml"), filepath.Join(o.output, "example.yaml"))
	return nil
}
