// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultName    = "default"
	defaultNodes   = 2
	maxNodes       = 100
	simulatedNode  = "simulated"
	defaultTimeout = 2 * time.Minute
)

// newCommand returns the command line.
func newCommand() *cobra.Command {
	var cache, name string
	root := &cobra.Command{
		Use:               "localcluster",
		Short:             "Run a real Kubernetes control plane on this machine, built from source.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringVar(&cache, "cache", os.Getenv(cacheVariable),
		"folder for binaries and instances; default $"+cacheVariable+", else in the user's cache folder")
	named := func(cmd *cobra.Command) *cobra.Command {
		cmd.Args = cobra.NoArgs
		cmd.Flags().StringVar(&name, "name", defaultName, "the instance; several run side by side")
		return cmd
	}
	find := func() (instance, error) {
		l, err := newLayout(cache)
		if err != nil {
			return instance{}, err
		}
		return l.instance(name)
	}

	root.AddCommand(
		named(newUpCommand(&cache, &name)),
		named(&cobra.Command{
			Use:   "down",
			Short: "End an instance and remove its data",
			RunE: func(cmd *cobra.Command, _ []string) error {
				inst, err := find()
				if err != nil {
					return err
				}
				return down(cmd.Context(), inst, cmd.OutOrStdout())
			},
		}),
		named(&cobra.Command{
			Use:   "kubeconfig",
			Short: "Print the path of an instance's kubeconfig file",
			RunE: func(cmd *cobra.Command, _ []string) error {
				inst, err := find()
				if err != nil {
					return err
				}
				s, err := readState(inst)
				if err != nil || s.Phase != phaseReady {
					return fmt.Errorf("instance %q is not up", inst.name)
				}
				fmt.Fprintln(cmd.OutOrStdout(), s.Connection.Kubeconfig)
				return nil
			},
		}),
		newBuildCommand(&cache),
		newNodeCommand(),
	)
	return root
}

func newBuildCommand(cache *string) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the programs of Kubernetes if they are missing, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*cache)
			if err != nil {
				return err
			}
			set, err := controlPlane(version)
			if err != nil {
				return err
			}
			dir, err := builder{set: set, layout: l, progress: cmd.ErrOrStderr()}.ensure(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	versionFlag(cmd, &version)
	return cmd
}

// versionFlag adds the flag for the version of Kubernetes.
func versionFlag(cmd *cobra.Command, version *string) {
	cmd.Flags().StringVar(version, "kubernetes", os.Getenv(versionVariable),
		"minor version of Kubernetes, such as 1.33; default $"+versionVariable+", else the version of go.mod")
}

// newNodeCommand returns the command that the supervisor starts in the namespaces of a real node.
func newNodeCommand() *cobra.Command {
	n := nodeInit{}
	cmd := &cobra.Command{
		Use:    "node",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return n.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&n.dir, "dir", "", "folder of the instance")
	cmd.Flags().StringArrayVar(&n.programs, "programs", nil, "folder of programs of the node; may be repeated")
	cmd.Flags().StringArrayVar(&n.images, "image", nil, "archive of an image; may be repeated")
	return cmd
}

func newUpCommand(cache, name *string) *cobra.Command {
	u := up{}
	var foreground bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start an instance, building what is missing",
		Long: `Start an instance, building what is missing, and return when pods can run on it.

With --foreground the command stays: it prints one line of JSON when the instance is ready, and ends the instance when
its stdin is closed or a signal arrives. Without --name such an instance gets a name of its own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*cache)
			if err != nil {
				return err
			}
			if foreground && !cmd.Flags().Changed("name") {
				*name = ephemeralName()
			}
			inst, err := l.instance(*name)
			if err != nil {
				return err
			}
			u.layout, u.instance, u.stdout, u.stderr = l, inst, cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := u.validate(); err != nil {
				return err
			}
			u.nodesGiven = cmd.Flags().Changed("nodes")
			if u.real() && !u.nodesGiven {
				u.nodes = 0
			}
			if foreground {
				return u.supervise(cmd.Context(), cmd.InOrStdin())
			}
			return u.ensure(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&foreground, "foreground", false, "stay, and end the instance when stdin is closed")
	cmd.Flags().BoolVar(&u.audit, "audit", false, "write an audit log of every request")
	cmd.Flags().IntVar(&u.nodes, "nodes", defaultNodes, "number of simulated nodes")
	cmd.Flags().StringVar(&u.node, "node", simulatedNode,
		"simulated, or real for a further node that runs containers; a real one needs Linux and root, and is the only one without --nodes")
	cmd.Flags().StringArrayVar(&u.images, "image", nil, "archive of an image for the real node; may be repeated")
	versionFlag(cmd, &u.version)
	cmd.Flags().DurationVar(&u.timeout, "timeout", defaultTimeout, "limit for the start, without the build")
	return cmd
}

// validate checks the flags.
func (u *up) validate() error {
	if u.nodes < 0 || u.nodes > maxNodes {
		return fmt.Errorf("--nodes=%d: want 0 to %d", u.nodes, maxNodes)
	}
	var err error
	if u.kubernetes, err = controlPlane(u.version); err != nil {
		return err
	}
	switch {
	case u.real() && !bytes.Equal(u.kubernetes.mod, nodePrograms.mod):
		return fmt.Errorf("--kubernetes=%s: a real node needs the version of its kubelet; leave the version out", u.version)
	case u.real():
		return checkNode()
	case u.node != simulatedNode:
		return fmt.Errorf("--node=%s: want real or simulated", u.node)
	case len(u.images) > 0:
		return errors.New("--image: simulated nodes run no images; set --node=real")
	}
	return nil
}

// ephemeralName returns the name of an instance that ends with its command.
func ephemeralName() string {
	return fmt.Sprintf("%s%d-%s", ephemeralPrefix, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}
