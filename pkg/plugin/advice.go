// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/refusal"
)

// whyCommand is the command that explains the state of an object.
func whyCommand(object inspect.Reference) string {
	command := "kubectl demoapp why " + strings.ToLower(object.Kind) + "/" + object.Name
	if object.Namespace != "" {
		command += " -n " + object.Namespace
	}
	return printable(command) + " shows the cause"
}

// oneOf returns an error if a flag's value is not allowed, and names the nearest allowed value. An
// empty value is not named.
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

// noun names the kind of value of a flag, by its type.
var noun = map[string]string{
	"bool": "true or false", "duration": "a duration, such as 5m", "int": "a whole number", "uint16": "a number from 0 to 65535",
}

// explainFlag names the flag that a user meant by an unknown one, and the valid values.
func explainFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if kind := noun[invalid.GetFlag().Value.Type()]; kind != "" {
			return fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		}
		return err
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if near := inspect.Nearest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
}

// explainField names the field that a user meant by an unknown one, among those that the object
// has.
func explainField(err error, object *unstructured.Unstructured) error {
	unknown := refusal.FieldUnknown.Subject(err.Error())
	if unknown == "" || object == nil {
		return err
	}
	path := strings.Split(unknown, ".")
	last := len(path) - 1
	parent, _, _ := unstructured.NestedMap(object.Object, path[:last]...)
	near := inspect.Nearest(path[last], slices.Sorted(maps.Keys(parent)))
	if near == "" {
		return err
	}
	path[last] = near
	return fmt.Errorf("%w; did you mean %q?", err, strings.Join(path, "."))
}

// refuseUnknown makes commands that only have subcommands fail for an unknown word. It treats help
// in the same way. cobra's own message has several lines, or is missing.
func refuseUnknown(cmd *cobra.Command) {
	switch {
	case cmd.Name() == "help":
		cmd.Args = func(help *cobra.Command, args []string) error {
			found, rest, err := help.Root().Find(args)
			if err != nil || found == nil {
				found, rest = help.Root(), args
			}
			return explainCommand(found, rest)
		}
	case !cmd.Runnable():
		cmd.Args = explainCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, below := range cmd.Commands() {
		refuseUnknown(below)
	}
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

// explain returns an error in one line, with a remedy: the name that was meant, or the command that
// lists permissions.
func (c *command) explain(ctx context.Context, err error) string {
	text := oneLine(err)
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return text
	}
	switch details := refused.Status().Details; {
	case apierrors.IsForbidden(err):
		return text + "; " + c.permissionsCommand(text)
	case apierrors.IsNotFound(err) && details != nil && details.Name != "" && details.Kind != "":
		if details.Kind != "namespaces" {
			if absent := c.absentNamespace(ctx); absent != nil {
				return c.explain(ctx, absent)
			}
		}
		if near := c.nearestObject(ctx, details.Kind+"."+details.Group, details.Name); near != "" {
			return fmt.Sprintf("%s; did you mean %q?", text, near)
		}
	}
	return text
}

// permissionsCommand is the command that lists the permissions of the user in the namespace of a
// refusal; by default in the command's own namespace.
func (c *command) permissionsCommand(answer string) string {
	command := "kubectl auth can-i --list"
	if namespace := refusal.PermissionNamespace.Subject(answer); namespace != "" {
		command += " -n " + namespace
	} else if namespace, err := c.namespace(); err == nil {
		command += " -n " + namespace
	}
	if user := *c.flags.Impersonate; user != "" {
		command += " --as=" + user
	}
	return command + " shows what you may do"
}

// absentNamespace returns the error of the API server if the namespace of the command does not
// exist, or why the kubeconfig cannot be read. Other errors of the API server do not count, because
// users of a single namespace may not read their Namespace.
func (c *command) absentNamespace(ctx context.Context) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	_, err = cluster.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// nearestObject returns the name of the object that a user meant by a name; empty if none is near,
// or the user may not list the objects.
func (c *command) nearestObject(ctx context.Context, resource, name string) string {
	cluster, err := c.cluster()
	if err != nil {
		return ""
	}
	gvk := corev1.SchemeGroupVersion.WithKind("Namespace")
	if resource != "namespaces." {
		kind, err := cluster.Kind(ctx, strings.TrimSuffix(resource, "."))
		if err != nil {
			return ""
		}
		gvk = kind.GroupVersionKind
	}
	namespace, err := c.namespace()
	if err != nil {
		return ""
	}
	names, err := cluster.Names(ctx, gvk, namespace)
	if err != nil {
		return ""
	}
	return inspect.Nearest(name, names)
}
