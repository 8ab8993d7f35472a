// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// splitObject splits the arguments KIND, KIND/NAME or KIND NAME. name is empty without one.
func splitObject(args []string) (kind, name string, err error) {
	switch len(args) {
	case 1:
		kind, name, named := strings.Cut(args[0], "/")
		if kind == "" || named && name == "" || strings.Contains(name, "/") {
			return "", "", fmt.Errorf("%q names no object; write KIND/NAME, as in demoapp/web", args[0])
		}
		return kind, name, nil
	case 2:
		if strings.Contains(args[0], "/") {
			return "", "", fmt.Errorf("one object at a time: got %q and %q", args[0], args[1])
		}
		return args[0], args[1], nil
	default:
		return "", "", errors.New("name one object as KIND/NAME, as in demoapp/web")
	}
}

// completeObjects completes KIND and KIND/NAME.
func (c *command) completeObjects(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cluster, err := c.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	word, prefix, named := strings.Cut(toComplete, "/")
	if !named {
		kinds, err := cluster.Kinds(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []cobra.Completion
		for _, kind := range kinds {
			if strings.HasPrefix(kind.Singular, word) {
				found = append(found, kind.Singular+"/")
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	kind, err := cluster.Kind(cmd.Context(), word)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	objects, err := cluster.List(cmd.Context(), kind.GroupVersionKind, namespace, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []cobra.Completion
	for _, object := range objects {
		if strings.HasPrefix(object.GetName(), prefix) {
			found = append(found, word+"/"+object.GetName())
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// object returns the reference of the object that the arguments KIND/NAME or KIND NAME name.
func (c *command) object(ctx context.Context, cluster *inspect.Cluster, args []string) (inspect.Reference, error) {
	word, name, err := splitObject(args)
	if err != nil {
		return inspect.Reference{}, err
	}
	if name == "" {
		return inspect.Reference{}, fmt.Errorf("%q names no object; write %s/NAME", args[0], word)
	}
	kind, err := cluster.Kind(ctx, word)
	if err != nil {
		return inspect.Reference{}, err
	}
	reference := inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Name: name}
	if kind.Namespaced {
		if reference.Namespace, err = c.namespace(); err != nil {
			return inspect.Reference{}, err
		}
	}
	return reference, nil
}
