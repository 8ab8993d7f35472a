// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// selection are the flags of commands for one object or many.
type selection struct {
	all, allNamespaces bool
	selector           string
}

func (s *selection) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.all, "all", false, "all objects of the kind, or of all kinds")
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "with --all or -l: objects of all namespaces")
	flags.StringVarP(&s.selector, "selector", "l", "", "label selector")
}

// selected reads the objects that the arguments and the flags select: KIND/NAME one or more times,
// KIND NAME, or KIND or nothing with -l or --all.
func (c *command) selected(ctx context.Context, cluster *inspect.Cluster, s selection, args []string) ([]*unstructured.Unstructured, error) {
	many := s.all || s.selector != ""
	named := len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "/")
	switch {
	case s.all && s.selector != "":
		return nil, errors.New("--all and --selector exclude each other")
	case named && (many || s.allNamespaces):
		return nil, errors.New("name objects, or select them with --all or --selector, and not both")
	case named:
		return c.named(ctx, cluster, args)
	case !many && len(args) == 1:
		return nil, fmt.Errorf("%q names no object; write %s/NAME, or select with --all or --selector", args[0], args[0])
	case !many:
		return nil, errors.New("name an object as KIND/NAME, as in demoapp/web, or select with --all or --selector")
	}
	query, err := c.query(ctx, cluster, getOptions{allNamespaces: s.allNamespaces, selector: s.selector}, args)
	if err != nil {
		return nil, err
	}
	objects, err := query.list(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for _, warning := range query.warnings {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", warning)
	}
	if len(objects) == 0 {
		return nil, errors.New("no objects found")
	}
	for i, found := range (getOptions{sort: "name"}).selected(objects) {
		objects[i] = found.object
	}
	return objects, nil
}

// named reads the objects that the arguments name.
func (c *command) named(ctx context.Context, cluster *inspect.Cluster, args []string) ([]*unstructured.Unstructured, error) {
	lists := [][]string{args}
	if strings.Contains(args[0], "/") {
		lists = nil
		for _, arg := range args {
			lists = append(lists, []string{arg})
		}
	}
	var objects []*unstructured.Unstructured
	for _, list := range lists {
		reference, err := c.object(ctx, cluster, list)
		if err != nil {
			return nil, err
		}
		object, err := cluster.Get(ctx, reference)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}
