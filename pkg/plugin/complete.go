// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// completerPrefix begins the name of the program that kubectl runs to complete the arguments of a
// plugin: kubectl_complete-demoapp for kubectl-demoapp. It prints the output of cobra's hidden
// command. See https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins.
const completerPrefix = "kubectl_complete-"

// completing returns the arguments of a program, which completes if it runs under the name of a
// completer, usually a symbolic link.
func completing(program string, args []string) []string {
	if strings.HasPrefix(filepath.Base(program), completerPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return args
}

// completeObjects completes KIND, KIND/NAME and KIND NAME for a command with one object.
func (c *command) completeObjects(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return c.complete(cmd, toComplete)
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return c.completeNames(cmd, args[0], "", toComplete)
	case cmd.Flags().Changed("diff"):
		return c.completeRevisions(cmd, args, toComplete)
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeMany completes the arguments of a command with several objects, without those that it
// has.
func (c *command) completeMany(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	var directive cobra.ShellCompDirective
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		found, directive = c.completeNames(cmd, args[0], "", toComplete)
	} else {
		found, directive = c.complete(cmd, toComplete)
	}
	return slices.DeleteFunc(found, func(word cobra.Completion) bool { return slices.Contains(args, word) }), directive
}

// complete completes KIND and KIND/NAME.
func (c *command) complete(cmd *cobra.Command, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if word, prefix, named := strings.Cut(toComplete, "/"); named {
		return c.completeNames(cmd, word, word+"/", prefix)
	}
	cluster, err := c.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	kinds, err := cluster.Kinds(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []cobra.Completion
	for _, kind := range kinds {
		if strings.HasPrefix(kind.Singular, toComplete) {
			found = append(found, kind.Singular+"/")
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeNames completes the name of an object of a kind, behind a text.
func (c *command) completeNames(cmd *cobra.Command, word, before, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cluster, err := c.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	kind, err := cluster.Kind(cmd.Context(), word)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := cluster.Names(cmd.Context(), kind.GroupVersionKind, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(names)
	var found []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, before+name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// flagValues are the values of flags, as completions.
var flagValues = map[string][]cobra.Completion{
	"dry-run": {"none", "client", "server"},
	"sort":    {"name", "age", "ready", "chart"},
}

// completeFlags adds the completion of flags to a command and those below it.
func (c *command) completeFlags(cmd *cobra.Command) {
	for flag, values := range flagValues {
		if cmd.Flags().Lookup(flag) != nil {
			must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	// The flag output of some commands is a file. For all other commands, it names the formats.
	if output := cmd.Flags().Lookup("output"); output != nil && output.Shorthand == "o" {
		formats := slices.DeleteFunc([]cobra.Completion{"json", "yaml", "name", "wide"}, func(format string) bool { return !strings.Contains(output.Usage, format) })
		must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	}
	switch cmd.Name() {
	case "rollback":
		must(cmd.RegisterFlagCompletionFunc("to", c.completeRevisions))
	case "get":
		must(cmd.RegisterFlagCompletionFunc("chart", c.completeCharts))
	}
	if cmd.PersistentFlags().Lookup("context") != nil {
		must(cmd.RegisterFlagCompletionFunc("context", c.completeContexts))
	}
	if cmd.PersistentFlags().Lookup("namespace") != nil {
		must(cmd.RegisterFlagCompletionFunc("namespace", c.completeNamespaces))
	}
	for _, below := range cmd.Commands() {
		c.completeFlags(below)
	}
}

// must panics on an error about a flag, which the caller has looked up.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (c *command) completeNamespaces(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cluster, err := c.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := cluster.Names(cmd.Context(), corev1.SchemeGroupVersion.WithKind("Namespace"), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return beginningWith(toComplete, names), cobra.ShellCompDirectiveNoFileComp
}

// completeRevisions completes the recorded revisions of the object that the arguments name.
func (c *command) completeRevisions(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 && strings.Contains(args[0], "/") {
		args = args[:1] // The others are revisions.
	}
	cluster, object, err := c.read(cmd.Context(), args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	release := inspect.StatusOf(object).Release.DeployedRelease
	if release == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	revisions, err := cluster.Revisions(cmd.Context(), object.GetNamespace(), release.Name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []string
	for _, revision := range revisions {
		found = append(found, strconv.FormatInt(revision.Number, 10))
	}
	return beginningWith(toComplete, found), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeCharts completes the charts of releases.
func (c *command) completeCharts(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cluster, err := c.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	query, err := c.query(cmd.Context(), cluster, getOptions{}, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	objects, err := query.list(cmd.Context(), cluster)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return beginningWith(toComplete, chartsOf(objects)), cobra.ShellCompDirectiveNoFileComp
}

// completeContexts completes the contexts of the kubeconfig.
func (c *command) completeContexts(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return beginningWith(toComplete, slices.Sorted(maps.Keys(config.Contexts))), cobra.ShellCompDirectiveNoFileComp
}

// beginningWith returns the words that begin with a text.
func beginningWith(prefix string, words []string) []cobra.Completion {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
}
