// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/ui"
)

func (c *command) ui() *cobra.Command {
	var port uint16
	var write bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show all objects on a local page in the browser",
		Long: "Serve a page on loopback, with your own permissions, until Ctrl-C. The page shows the objects of all namespaces, or with -n those of one.\n\n" +
			"The printed URL has a secret token. Whoever has it and can reach the port sees what you may see.",
		Example: "  kubectl demoapp ui\n\n  # On a remote machine, with a port that SSH forwards: ssh -L 8001:localhost:8001 HOST\n  kubectl demoapp ui --port 8001",
		Args:    noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runUI(cmd.Context(), port, write) },
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "port on loopback; 0 is a random one")
	cmd.Flags().BoolVar(&write, "write", false, "let the page reconcile, retry, suspend and resume objects")
	return cmd
}

func (c *command) runUI(ctx context.Context, port uint16, write bool) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	if _, err := cluster.Kinds(ctx); err != nil {
		return err
	}
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return err
	}
	name := config.CurrentContext
	if *c.flags.Context != "" {
		name = *c.flags.Context
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	server := ui.New(ui.Options{
		Cluster: cluster, Namespace: *c.flags.Namespace, Write: write, Context: name, Kinds: c.options.Kinds, Version: c.options.Version, Getter: c.flags, Now: c.options.Now,
	})
	fmt.Fprintf(c.streams.Out, "%s\nOpen this URL in a browser on this machine. Ctrl-C ends the page.\n", server.URL(listener.Addr()))
	return server.Run(ctx, listener)
}
