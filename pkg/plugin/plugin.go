// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// Options are the options of a plugin. The zero value is the plugin of this operator.
type Options struct {
	// Program is the name of the program; by default kubectl-demoapp. With the prefix "kubectl-",
	// help shows it as "kubectl demoapp", as kubectl runs it.
	Program string
	// Operator names the Lease of the operator's leader; by default
	// demoapp-system/demoapp-controller.
	Operator types.NamespacedName
	// Kinds are the functions of kinds, which return the desired state of an object. A kind with a
	// release whose spec is the values of its chart, such as the kinds of watches.yaml, needs no
	// functions.
	Kinds map[schema.GroupKind]inspect.KindFunctions
	// Intended returns the release that a file watches.yaml makes for an object; it may be nil.
	Intended func(ctx context.Context, file string, object *unstructured.Unstructured) (inspect.Intended, error)
	// WatchedKinds returns the kinds of a file watches.yaml; it may be nil.
	WatchedKinds func(file string) ([]schema.GroupKind, error)
	// Scheme has the kinds of the operator whose CRDs create kind must not replace; it may be nil.
	Scheme *runtime.Scheme
	// Version is the version of the operator that Kinds belongs to; empty if it is not known.
	Version string
	// Now returns the current time; by default time.Now.
	Now func() time.Time
}

// Exit codes of all commands. Commands document their own meaning of exitWaits and exitActs.
const (
	exitOK     = 0
	exitWaits  = 1
	exitActs   = 2
	exitFailed = 3
)

// answerError ends the program with an exit code and prints nothing: the command has printed its
// answer already.
type answerError int

// Error implements error.
func (e answerError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// command has the state that all commands share.
type command struct {
	options Options
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
}

// Execute runs the plugin and returns its exit code. args do not have the name of the program.
func Execute(ctx context.Context, options Options, args []string, streams genericiooptions.IOStreams) int {
	options.Program = cmp.Or(options.Program, "kubectl-demoapp")
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Operator.Name == "" {
		options.Operator = types.NamespacedName{Namespace: "demoapp-system", Name: "demoapp-controller"}
	}
	c := &command{options: options, streams: streams, flags: genericclioptions.NewConfigFlags(true)}
	root := c.root() //nolint:contextcheck // Commands get the context from cobra.
	root.SetArgs(completing(os.Args[0], args))
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	err := root.ExecuteContext(ctx)
	var answer answerError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &answer):
		return int(answer)
	default:
		for _, err := range joined(err) {
			fmt.Fprintf(streams.ErrOut, "error: %s\n", printable(c.explain(ctx, err)))
		}
		return exitFailed
	}
}

// joined returns the errors of which [errors.Join] made an error.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	return several.Unwrap()
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (c *command) root() *cobra.Command {
	name := c.options.Program
	annotations := map[string]string{}
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok && filepath.Base(os.Args[0]) != plugin {
		annotations[cobra.CommandDisplayNameAnnotation] = "kubectl " + plugin
	}
	root := &cobra.Command{
		Use: name, Short: "Show the operator's objects: their state, what they wait for, and what a change would do",
		SilenceErrors: true, SilenceUsage: true, Annotations: annotations,
		Version: cmp.Or(c.options.Version, "unknown"),
	}
	root.SetFlagErrorFunc(explainFlag)
	flags := root.PersistentFlags()
	c.flags.AddFlags(flags)
	flags.StringVar(&c.options.Operator.Namespace, "operator-namespace", c.options.Operator.Namespace, "namespace of the operator")
	flags.StringVar(&c.options.Operator.Name, "operator-lease", c.options.Operator.Name, "name of the Lease of the operator's leader")
	root.AddCommand(c.adopt(), c.create(), c.diff(), c.events(), c.get(), c.history(), c.logs(), c.orphan(), c.reconcile(), c.render(), c.report(),
		c.restore(), c.resume(), c.retry(), c.rollback(), c.status(), c.suspend(), c.tree(), c.ui(), c.validate(), c.values(), c.version(), c.wait(), c.why())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseUnknown(root)
	c.completeFlags(root)
	return root
}

// cluster returns the cluster of the flags.
func (c *command) cluster() (*inspect.Cluster, error) {
	return inspect.NewCluster(c.flags, c.options.Operator)
}

// namespace returns the namespace of the flags and the kubeconfig.
func (c *command) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}
