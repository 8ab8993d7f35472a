// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// whyCommand is the command that explains the state of an object.
func whyCommand(object inspect.Reference) string {
	command := "kubectl demoapp why " + strings.ToLower(object.Kind) + "/" + object.Name
	if object.Namespace != "" {
		command += " -n " + object.Namespace
	}
	return printable(command) + " shows the cause"
}

// oneOf returns an error for a flag's value that is none of the allowed ones, and names the nearest.
// An empty value is not named.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(value string) bool { return value == "" })
	if near := inspect.Nearest(value, allowed); near != "" {
		return fmt.Errorf("--%s: no value %q; did you mean %q?", flag, value, near)
	}
	return fmt.Errorf("--%s: no value %q; use %s or %s", flag, value, strings.Join(allowed[:len(allowed)-1], ", "), allowed[len(allowed)-1])
}

// explainFlag names the flag that a user meant by an unknown one.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if near := inspect.Nearest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// explainCommand names the command that a user meant by an unknown one.
func explainCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, known := range cmd.Commands() {
		names = append(names, known.Name())
	}
	if near := inspect.Nearest(args[0], names); near != "" {
		return fmt.Errorf("no command %q; did you mean %q?", args[0], near)
	}
	return fmt.Errorf("no command %q; %s --help lists the commands", args[0], cmd.CommandPath())
}

// explain returns an error in one line, with what the user can do about it: the name that was meant,
// or the command that lists permissions.
func (c *command) explain(ctx context.Context, err error) string {
	text := oneLine(err)
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return text
	}
	switch details := refused.Status().Details; {
	case apierrors.IsForbidden(err):
		command := "kubectl auth can-i --list"
		if namespace, err := c.namespace(); err == nil {
			command += " -n " + namespace
		}
		return text + "; " + command + " shows what you may do"
	case apierrors.IsNotFound(err) && details != nil && details.Name != "" && details.Kind != "":
		if near := c.nearestObject(ctx, details.Kind+"."+details.Group, details.Name); near != "" {
			return fmt.Sprintf("%s; did you mean %q?", text, near)
		}
	}
	return text
}

// nearestObject returns the name of the object that a user meant by a name; empty if none is near,
// or the user may not list the objects.
func (c *command) nearestObject(ctx context.Context, resource, name string) string {
	cluster, err := c.cluster()
	if err != nil {
		return ""
	}
	kind, err := cluster.Kind(ctx, strings.TrimSuffix(resource, "."))
	if err != nil {
		return ""
	}
	namespace, err := c.namespace()
	if err != nil {
		return ""
	}
	names, err := cluster.Names(ctx, kind.GroupVersionKind, namespace)
	if err != nil {
		return ""
	}
	return inspect.Nearest(name, names)
}
