// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/operator"
)

// programName is the command, and its name in logs, events and user agents.
const programName = "demoapp-controller"

// defaultNamespace is where artifacts/deploy puts the operator.
const defaultNamespace = "demoapp-system"

// Exit codes of the process.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks errors of the command line, which is not worth a log line but an answer to who typed it.
var errUsage = errors.New("usage")

// Execute runs the command and returns its exit code. It returns when stop ends and the process has stopped in order,
// or when something fails.
func Execute(stop context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand(stderr, func(options *Options) error {
		return operator.Run(stop, options.Options, kinds(options)...)
	})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	switch err := cmd.Execute(); {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		for line := range strings.SplitSeq(err.Error(), "\n") {
			_, _ = fmt.Fprintf(stderr, "%s: %s\n", programName, line)
		}
		return exitUsage
	default:
		klog.FromContext(stop).Error(nil, strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitFailed
	}
}

// newCommand returns the command; run is what it does with valid options.
func newCommand(logs io.Writer, run func(*Options) error) *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:   programName,
		Short: "Deploys DemoApps (demo.example.com/v1alpha1) with Helm and keeps them as they were asked for",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("unexpected argument %q: only flags are understood, see --help", args[0]))
			}
			return nil
		},
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		RunE: func(*cobra.Command, []string) error {
			if err := options.Validate(); err != nil {
				return usageError(err)
			}
			options.SetupLogging(logs)
			return run(options)
		},
	}
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w; see --help", err))
	})
	cmd.Flags().SortFlags = false
	options.AddFlags(cmd.Flags())
	return cmd
}

// usageError marks err as an error of the command line, and leaves its text alone.
func usageError(err error) error { return usage{err} }

type usage struct{ error }

func (u usage) Unwrap() error        { return u.error }
func (u usage) Is(target error) bool { return target == errUsage }

// version is what the Go toolchain stamped into the binary: a tag, or a pseudo-version that names the commit; "devel"
// where it was told not to.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
