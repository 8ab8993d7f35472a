// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// report returns the command report.
func (c *command) report() *cobra.Command {
	var allNamespaces bool
	var output string
	cmd := &cobra.Command{
		Use: "report", Short: "Write a support bundle without secrets", Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runReport(cmd.Context(), allNamespaces, output) },
	}
	cmd.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "objects of all namespaces")
	cmd.Flags().StringVar(&output, "output", "demoapp-report.tar.gz", "file of the bundle, which must not exist; - writes to standard output")
	return cmd
}

func (c *command) runReport(ctx context.Context, allNamespaces bool, output string) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	namespace := ""
	if !allNamespaces {
		if namespace, err = c.namespace(); err != nil {
			return err
		}
	}
	if namespace != "" {
		// A report about a mistyped namespace would be empty.
		if err := c.absentNamespace(ctx); err != nil {
			return err
		}
	}
	bundle, err := cluster.Bundle(ctx, namespace)
	if err != nil {
		return err
	}
	if output == "-" {
		if err := c.writeBundle(c.streams.Out, bundle); err != nil {
			return err
		}
		c.printLeftOut(bundle)
		return nil
	}
	file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // The user names the file.
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if err := errors.Join(c.writeBundle(file, bundle), file.Close()); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	fmt.Fprintln(c.streams.Out, output)
	c.printLeftOut(bundle)
	return nil
}

func (c *command) printLeftOut(bundle *inspect.Bundle) {
	for _, line := range bundle.LeftOut {
		fmt.Fprintf(c.streams.ErrOut, "left out: %s\n", printable(line))
	}
}

// writeBundle writes a bundle as an archive, with a file that lists the missing parts.
func (c *command) writeBundle(out io.Writer, bundle *inspect.Bundle) error {
	files := maps.Clone(bundle.Files)
	files["left-out.txt"] = []byte(strings.Join(bundle.LeftOut, "\n") + "\n")
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: path.Join("demoapp-report", name), Mode: 0o600, Size: int64(len(files[name])), ModTime: c.options.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
