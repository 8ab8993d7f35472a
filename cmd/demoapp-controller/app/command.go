// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/operator"
)

// programName is the name of the command in logs, events and user agents.
const programName = "demoapp-controller"

// defaultNamespace is the namespace of the operator in artifacts/deploy.
const defaultNamespace = "demoapp-system"

// Exit codes of the process.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks errors of the command line. They are printed as plain text instead of log lines.
var errUsage = errors.New("usage")

// Execute runs the command and returns its exit code. It returns after a failure, or after an
// orderly stop when stop ends.
func Execute(stop context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand(stderr, func(options *Options) error {
		registered, err := kinds(stop, options)
		if err != nil {
			return err
		}
		return operator.Run(stop, options.Options, registered...)
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

// newCommand returns the command. The command calls run with valid options.
func newCommand(logs io.Writer, run func(*Options) error) *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:   programName,
		Short: "Reconciles DemoApps with Helm, and the other kinds whose CRDs are installed",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("unexpected argument %q: the command accepts only flags, see --help", args[0]))
			}
			return nil
		},
		Version:           options.VersionLine(),
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

// usageError marks err as an error of the command line. It does not change the text.
func usageError(err error) error { return usage{err} }

type usage struct{ error }

func (u usage) Unwrap() error        { return u.error }
func (u usage) Is(target error) bool { return target == errUsage }
