// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// oneObject accepts the arguments of a command about one object.
func oneObject(_ *cobra.Command, args []string) error {
	_, _, err := splitObject(args)
	return err
}

// atMostOneObject accepts the arguments of a command that can do without an object.
func atMostOneObject(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneObject(cmd, args)
}

// noArguments accepts no argument.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q; %s --help lists the flags", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

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
		return "", "", errors.New("name one object as KIND/NAME, as in demoapp/web; kubectl demoapp get lists the objects")
	}
}

// object returns the reference of the object that the arguments KIND/NAME or KIND NAME name. The kind is
// a kind that the operator serves, or one of the further kinds.
func (c *command) object(ctx context.Context, cluster *inspect.Cluster, args []string, further ...schema.GroupKind) (inspect.Reference, error) {
	word, name, err := splitObject(args)
	if err != nil {
		return inspect.Reference{}, err
	}
	kind, err := cluster.Kind(ctx, word, further...)
	switch {
	case err != nil && name == "":
		return inspect.Reference{}, fmt.Errorf("%w; write KIND/NAME, as in demoapp/%s", err, word)
	case err != nil:
		return inspect.Reference{}, err
	case name == "":
		return inspect.Reference{}, fmt.Errorf("%q names no object; write %s/NAME", args[0], word)
	}
	reference := inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Name: name}
	if kind.Namespaced {
		if reference.Namespace, err = c.namespace(); err != nil {
			return inspect.Reference{}, err
		}
	}
	return reference, nil
}
