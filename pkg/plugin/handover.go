// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/message"
)

// handoverOptions are the flags of adopt and orphan.
type handoverOptions struct {
	yes, wait   bool
	showSecrets bool
	dryRun      string
	watchesFile string
	timeout     time.Duration
}

func (c *command) adopt() *cobra.Command {
	var o handoverOptions
	cmd := &cobra.Command{
		Use:   "adopt KIND/NAME",
		Short: "Take over a release that the helm command made, or show what a takeover changes",
		Long: "Take over the release of an object that exists already, made by the helm command. The object takes the release over with all its\n" +
			"objects, and upgrades it to what the spec says.\n\n" +
			"With --dry-run and --watches-file, show which objects the takeover would delete, create or change. The release may be one of the\n" +
			"helm command or of another operator, which may still run. Charts are relative to the working directory, and overrideValues use\n" +
			"variables of the environment, as in the operator. Nothing is written. Exit codes: 0 no difference, 1 a difference, 3 failed.",
		Example: "  kubectl demoapp adopt demoapp/web --wait\n\n" +
			"  # What would change if this operator took over the release of another operator\n" +
			"  kubectl demoapp adopt memcached/web --dry-run=server --watches-file=watches.yaml",
		Args: oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runAdopt(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.wait, "wait", false, "follow the status until the object is ready, or needs a person")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "end of --wait")
	flags.StringVar(&o.watchesFile, "watches-file", "", "watches.yaml of the operator that would take the release over; needs --dry-run")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets")
	flags.StringVar(&o.dryRun, "dry-run", "none", "none, client or server: show what would be taken over, and write nothing")
	return cmd
}

func (c *command) runAdopt(ctx context.Context, o handoverOptions, args []string) error {
	if err := oneOf("dry-run", o.dryRun, "none", "client", "server"); err != nil {
		return err
	}
	if o.watchesFile != "" && o.dryRun == "none" {
		return errors.New("--watches-file: needs --dry-run=server")
	}
	if o.watchesFile != "" {
		return c.previewTakeover(ctx, o, args)
	}
	cluster, object, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	release, err := cluster.HandoverOf(ctx, object, nil)
	if err != nil {
		return err
	}
	if release.Owned(object.GetUID()) {
		return ownedError(release, object)
	}
	c.printHandover(release)
	dryRun := o.dryRun
	if dryRun == "none" {
		dryRun = ""
	}
	if dryRun == "" && !o.yes && !c.confirmed(fmt.Sprintf("Take release %s over for %s?", release.Name, inspect.ReferenceOf(object))) {
		return errNotConfirmed
	}
	outcome, err := cluster.Adopt(ctx, object, release, inspect.Request{At: c.options.Now(), DryRun: dryRun})
	if err != nil {
		return err
	}
	for _, warning := range outcome.Warnings {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(warning))
	}
	fmt.Fprintf(c.streams.Out, "%s requested to adopt release %s%s\n", c.resourceName(object), release.Name, dryRunSuffix[dryRun])
	if !o.wait || dryRun != "" {
		return nil
	}
	return c.await(ctx, cluster, awaited{objects: []*unstructured.Unstructured{outcome.Object}, handled: outcome.Handled}, o.timeout)
}

// ownedError says that there is nothing to take over.
func ownedError(release *inspect.Handover, owner *unstructured.Unstructured) error {
	return fmt.Errorf("release %s belongs to %s already", release.Name, inspect.ReferenceOf(owner))
}

// previewTakeover prints the changes that the takeover of a release of another operator would make.
func (c *command) previewTakeover(ctx context.Context, o handoverOptions, args []string) error {
	if c.options.Intended == nil || c.options.WatchedKinds == nil {
		return errors.New("--watches-file: this plugin cannot read it")
	}
	kinds, err := c.options.WatchedKinds(o.watchesFile)
	if err != nil {
		return err
	}
	// The operator may not run yet, or not serve the kind yet.
	cluster, object, err := c.read(ctx, args, kinds...)
	if err != nil {
		return err
	}
	intended, err := c.options.Intended(ctx, o.watchesFile, object)
	if err != nil {
		return err
	}
	release, err := cluster.HandoverOf(ctx, object, &intended)
	if err != nil {
		return err
	}
	if release.Owned(object.GetUID()) && release.Operated() {
		return ownedError(release, object)
	}
	c.printHandover(release)
	return c.showTakeover(ctx, c.differ(ctx, cluster, object, o.showSecrets), object, release, intended)
}

// showTakeover prints the changes that a takeover of a release would make.
func (c *command) showTakeover(
	ctx context.Context, differ inspect.Differ, object *unstructured.Unstructured, release *inspect.Handover, intended inspect.Intended,
) error {
	found, hooks, err := differ.Takeover(ctx, object, release, intended)
	if err != nil {
		return err
	}
	defer c.printHooks(hooks)
	different := slices.DeleteFunc(slices.Clone(found), func(difference inspect.Difference) bool { return !difference.Differs() && difference.Refused == "" })
	if len(different) == 0 {
		fmt.Fprintf(c.streams.Out, "The takeover of release %s would change no object.\n", release.Name)
		return c.printDifferences(found, "live", "taken over")
	}
	fmt.Fprintf(c.streams.Out, "The takeover of release %s would:\n", release.Name)
	for _, difference := range different {
		verb, pods := "change", ""
		switch {
		case difference.Refused != "":
			verb, pods = "fail at", ": "+printable(difference.Refused)
		case difference.After == "":
			verb = "delete"
		case difference.Before == "":
			verb = "create"
		case difference.RestartsPods:
			pods = ", and its pod template"
		}
		fmt.Fprintf(c.streams.Out, "  %s %s%s\n", verb, printable(difference.Name()), pods)
	}
	if err := c.printDifferences(found, "live", "taken over"); err != nil {
		return err
	}
	return answerError(exitWaits)
}

// printHooks shows the objects that hooks create in a takeover, because a takeover is an upgrade.
func (c *command) printHooks(hooks []inspect.Reference) {
	if len(hooks) == 0 {
		return
	}
	names := make([]string, 0, len(hooks))
	for _, hook := range hooks {
		names = append(names, printable(hook.String()))
	}
	slices.Sort(names)
	fmt.Fprintf(c.streams.ErrOut, "The takeover runs the hooks of an upgrade, which replace: %s\n", message.List(slices.Compact(names), maxTargets))
}

func (c *command) orphan() *cobra.Command {
	var o handoverOptions
	cmd := &cobra.Command{
		Use:   "orphan KIND/NAME",
		Short: "Delete an object and keep its release for the helm command",
		Long: "Delete an object of the operator and keep its release with all objects. From then on, the helm command owns the release.\n\n" +
			"The command marks the release as no longer owned, waits until the operator has seen that, and then deletes the object. If the\n" +
			"operator does not answer in time, nothing is deleted, and " + `"adopt" takes the release back.`,
		Example: "  kubectl demoapp orphan demoapp/web",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runOrphan(cmd.Context(), o, args) },
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "time to wait for the operator")
	return cmd
}

func (c *command) runOrphan(ctx context.Context, o handoverOptions, args []string) error {
	cluster, object, err := c.read(ctx, args)
	if err != nil {
		return err
	}
	name := inspect.ReferenceOf(object)
	if owner := metav1.GetControllerOf(object); owner != nil {
		return fmt.Errorf("%s belongs to %s/%s, which would create it again", name, owner.Kind, owner.Name)
	}
	if object.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s is being deleted already", name)
	}
	release, err := cluster.HandoverOf(ctx, object, nil)
	if err != nil {
		return err
	}
	c.printHandover(release)
	if manager := inspect.GitOpsOwner(object); manager != "" {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s wrote %s and will create it again; remove it from Git first\n", printable(manager), name)
	}
	if !o.yes && !c.confirmed(fmt.Sprintf("Delete %s and keep release %s with these objects?", name, release.Name)) {
		return errNotConfirmed
	}
	if err := cluster.LetGo(ctx, object, release); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	defer cancel()
	err = cluster.AwaitLetGo(waiting, object)
	if errors.Is(err, errTimeout) {
		fmt.Fprintf(c.streams.ErrOut, "timeout after %s: the operator has not let release %s go, and nothing was deleted; run the command again, or kubectl demoapp adopt\n",
			o.timeout, release.Name)
		return answerError(exitWaits)
	}
	if err != nil {
		return err
	}
	if err := cluster.DeleteOrphaned(ctx, object); err != nil {
		return err
	}
	fmt.Fprintf(c.streams.Out, "%s deleted; release %s and its objects stay\n", c.resourceName(object), release.Name)
	return nil
}

// printHandover shows the objects that change hands.
func (c *command) printHandover(h *inspect.Handover) {
	fmt.Fprintf(c.streams.ErrOut, "Release %s, revision %d (%s), chart %s:\n", printable(h.Name), h.Revision, printable(h.Status), printable(h.Chart))
	for i, object := range h.Objects {
		if i == maxTargets {
			fmt.Fprintf(c.streams.ErrOut, "  and %d more\n", len(h.Objects)-maxTargets)
			return
		}
		fmt.Fprintf(c.streams.ErrOut, "  %s\n", printable(object.String()))
	}
}
