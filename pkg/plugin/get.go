// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// getOptions are the flags of get.
type getOptions struct {
	allNamespaces, notReady, drifted, watch, showSecrets bool
	selector, chart, sort, output                        string
}

func (c *command) get() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get [KIND[/NAME] ...]",
		Short: "List objects of all kinds, one line each",
		Example: "  # What is not ready, in all namespaces\n  kubectl demoapp get -A --not-ready\n\n" +
			"  # The DemoApps that run version 0.3.0 of the chart\n  kubectl demoapp get demoapp --chart demo-app@0.3.0",
		ValidArgsFunction: c.completeMany,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.runGet(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list objects of all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector")
	flags.BoolVar(&o.notReady, "not-ready", false, "list only objects that are not ready")
	flags.BoolVar(&o.drifted, "drifted", false, "list only objects with drift that is not corrected")
	flags.StringVar(&o.chart, "chart", "", "list only releases of a chart, as NAME or NAME@VERSION")
	flags.StringVar(&o.sort, "sort", "name", "order: name, age, ready or chart")
	flags.StringVarP(&o.output, "output", "o", "", "output format: json, yaml, name or wide")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets in json and yaml")
	flags.BoolVarP(&o.watch, "watch", "w", false, "after the list, print each object that changes")
	return cmd
}

func (c *command) runGet(ctx context.Context, o getOptions, args []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	query, err := c.query(ctx, cluster, o, args)
	if err != nil {
		return err
	}
	objects, err := query.list(ctx, cluster)
	if err != nil {
		return err
	}
	list := o.selected(objects)
	if len(objects) == 0 && query.namespace != "" {
		if err := c.absentNamespace(ctx); err != nil {
			return err
		}
	}
	if len(list) == 0 && o.chart != "" {
		if charts := chartsOf(objects); len(charts) > 0 {
			if err := oneOf("chart", o.chart, charts...); err != nil {
				fmt.Fprintln(c.streams.ErrOut, printable(err.Error()))
			}
		}
	}
	for _, warning := range query.warnings {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", printable(warning))
	}
	if len(query.warnings) > 0 {
		fmt.Fprintln(c.streams.ErrOut, c.permissionsCommand(query.warnings[0]))
	}
	show, err := c.listPrinter(ctx, cluster, o)
	if err != nil {
		return err
	}
	if err := show(list); err != nil || !o.watch {
		return err
	}
	return c.watchList(ctx, cluster, query, list, func(object *unstructured.Unstructured) error {
		if changed := o.selected([]*unstructured.Unstructured{object}); len(changed) > 0 {
			return show(changed)
		}
		return nil
	})
}

// chartsOf returns the charts of objects, as NAME and NAME@VERSION.
func chartsOf(objects []*unstructured.Unstructured) []string {
	charts := sets.New[string]()
	for _, object := range objects {
		if name, version, deployed := strings.Cut(inspect.Summarize(object).Chart, "@"); deployed {
			charts.Insert(name, name+"@"+version)
		}
	}
	return sets.List(charts)
}

// listPrinter returns a function that prints a list, and then each object of the list that changes.
func (c *command) listPrinter(ctx context.Context, cluster *inspect.Cluster, o getOptions) (func([]listed) error, error) {
	if o.output != "" && o.output != "wide" {
		return func(list []listed) error {
			return c.printObjects(o.output, inspect.Mask{Show: o.showSecrets}, list)
		}, nil
	}
	waitsFor, err := cluster.WaitsFor(ctx)
	if err != nil {
		return nil, err
	}
	t := &table{screen: c.screen(), names: 1}
	if o.allNamespaces {
		t.names = 2
	}
	if o.output == "wide" {
		t.width = 0
	}
	return func(list []listed) error {
		if len(list) == 0 {
			fmt.Fprintln(c.streams.ErrOut, "No objects found.")
			return nil
		}
		t.add(c.listRows(o, t.widths == nil, list, waitsFor))
		return nil
	}, nil
}

// watchList calls changed with each object of the query that changes after it was listed, and once
// more when it is deleted.
func (c *command) watchList(
	ctx context.Context, cluster *inspect.Cluster, q *query, list []listed, changed func(*unstructured.Unstructured) error,
) error {
	versions := map[types.UID]string{}
	for _, shown := range list {
		versions[shown.object.GetUID()] = shown.object.GetResourceVersion()
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	for i, kind := range q.kinds {
		if q.forbidden[i] != nil {
			continue
		}
		what := inspect.Followed{Kind: kind.GroupVersionKind, Namespace: q.namespace, Name: q.nameAt(i), Selector: q.selector}
		group.Go(func() error {
			return cluster.FollowObjects(ctx, what, func(object *unstructured.Unstructured, deleted bool) {
				mu.Lock()
				defer mu.Unlock()
				if versions[object.GetUID()] == object.GetResourceVersion() && !deleted {
					return
				}
				if deleted && object.GetDeletionTimestamp() == nil {
					// An object without a finalizer disappears without a deletion timestamp.
					object = object.DeepCopy()
					now := metav1.NewTime(c.options.Now())
					object.SetDeletionTimestamp(&now)
				}
				if err := changed(object); err != nil {
					stop(err)
				}
			})
		})
	}
	return group.Wait()
}

// query selects the objects of a list.
type query struct {
	kinds []inspect.Kind
	// names are the names of objects, without their kinds; nil for all objects of the kinds.
	names []string
	// namespace is empty for all namespaces.
	namespace, selector string
	// warnings say which kinds the user may not list, and forbidden has the error of each such kind.
	warnings  []string
	forbidden []error
}

func (c *command) query(ctx context.Context, cluster *inspect.Cluster, o getOptions, args []string) (*query, error) {
	q := &query{selector: o.selector}
	if _, err := labels.Parse(o.selector); err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	var err error
	if !o.allNamespaces {
		if q.namespace, err = c.namespace(); err != nil {
			return nil, err
		}
	}
	if len(args) == 0 {
		q.kinds, err = cluster.Kinds(ctx)
		if err == nil && len(q.kinds) == 0 {
			_, err = cluster.Kind(ctx, "")
		}
		return q, err
	}
	objects := args
	if len(args) > 1 && !strings.Contains(args[0], "/") { // KIND NAME ...
		objects = nil
		for _, name := range args[1:] {
			objects = append(objects, args[0]+"/"+name)
		}
	}
	for _, arg := range objects {
		words, name, err := splitObject([]string{arg})
		switch {
		case err != nil:
			return nil, err
		case name == "" && len(objects) > 1:
			return nil, fmt.Errorf("%q names no object; write %s/NAME", arg, words)
		case name != "" && o.allNamespaces:
			return nil, fmt.Errorf("%s/%s: an object has one namespace; use --namespace in place of --all-namespaces", words, name)
		}
		for word := range strings.SplitSeq(words, ",") {
			kind, err := cluster.Kind(ctx, word)
			if err != nil {
				return nil, err
			}
			q.kinds = append(q.kinds, kind)
			if name != "" {
				q.names = append(q.names, name)
			}
		}
	}
	return q, nil
}

// nameAt returns the name of the object of the kind number i; empty for all objects of the kind.
func (q *query) nameAt(i int) string {
	if q.names == nil {
		return ""
	}
	return q.names[i]
}

// list reads the kinds at the same time. A kind of several that the user may not list is a warning;
// if the user may list none of them, that is the error.
func (q *query) list(ctx context.Context, cluster *inspect.Cluster) ([]*unstructured.Unstructured, error) {
	found := make([][]*unstructured.Unstructured, len(q.kinds))
	q.forbidden = make([]error, len(q.kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, kind := range q.kinds {
		group.Go(func() error {
			if name := q.nameAt(i); name != "" {
				object, err := cluster.Get(ctx, inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: q.namespace, Name: name})
				found[i] = []*unstructured.Unstructured{object}
				return err
			}
			objects, err := cluster.List(ctx, kind.GroupVersionKind, q.namespace, q.selector)
			if apierrors.IsForbidden(err) && len(q.kinds) > 1 {
				q.forbidden[i] = err
				return nil
			}
			found[i] = objects
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if !slices.Contains(q.forbidden, nil) {
		return nil, q.refused()
	}
	for _, err := range q.forbidden {
		if err != nil {
			q.warnings = append(q.warnings, err.Error())
		}
	}
	return slices.Concat(found...), nil
}

// refused returns the error of a user who may list none of the kinds.
func (q *query) refused() error {
	hint := ""
	if q.namespace == "" {
		hint = "; use --namespace instead of --all-namespaces if you may list them in one namespace"
	}
	return fmt.Errorf("%d kinds may not be listed, such as: %w%s", len(q.forbidden), q.forbidden[0], hint)
}

// listed is an object of a list.
type listed struct {
	object  *unstructured.Unstructured
	summary inspect.Summary
}

// orders are the values of --sort. Objects that are equal in an order are sorted by name.
var orders = map[string]func(a, b inspect.Summary) int{
	"name":  func(inspect.Summary, inspect.Summary) int { return 0 },
	"age":   func(a, b inspect.Summary) int { return b.Created.Compare(a.Created) },
	"ready": func(a, b inspect.Summary) int { return cmp.Compare(a.Ready, b.Ready) },
	"chart": func(a, b inspect.Summary) int { return cmp.Compare(a.Chart, b.Chart) },
}

func (o getOptions) validate() error {
	return errors.Join(oneOf("sort", o.sort, "name", "age", "ready", "chart"), oneOf("output", o.output, "", "json", "yaml", "name", "wide"))
}

// selected returns the objects that the flags select, in the order of --sort, and by default by
// namespace, kind and name.
func (o getOptions) selected(objects []*unstructured.Unstructured) []listed {
	list := make([]listed, 0, len(objects))
	for _, object := range objects {
		if summary := inspect.Summarize(object); o.selects(summary) {
			list = append(list, listed{object, summary})
		}
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(orders[o.sort](a.summary, b.summary), cmp.Compare(a.summary.Namespace, b.summary.Namespace),
			cmp.Compare(a.summary.Kind, b.summary.Kind), cmp.Compare(a.summary.Name, b.summary.Name))
	})
	return list
}

// selects reports whether the flags select an object.
func (o getOptions) selects(s inspect.Summary) bool {
	name, _, _ := strings.Cut(s.Chart, "@")
	return (!o.notReady || s.Ready != metav1.ConditionTrue) && (!o.drifted || s.Drifted) &&
		(o.chart == "" || o.chart == s.Chart || o.chart == name)
}

// age returns the time since a time, as kubectl shows it.
func age(now, since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(since))
}
