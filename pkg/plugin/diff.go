// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	file        string
	set         []string
	showSecrets bool
	output      string
}

func (c *command) diff() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff (KIND/NAME | -f FILE) [--set PATH=VALUE]",
		Short: "Compare live objects with their desired state, or show what a change would do",
		Long: "Compare the live objects of an object with their desired state, by server-side dry runs.\n\n" +
			"With -f or --set, show what the change would do to the object and to each of its objects. Nothing is written.\n" +
			"Exit codes: 0 equal, 1 different, 3 failed.",
		Example: "  # What another client changed\n  kubectl demoapp diff demoapp/web\n\n" +
			"  # What a change would do\n  kubectl demoapp diff -f web.yaml\n  kubectl demoapp diff demoapp/web --set spec.replicaCount=3",
		Args: atMostOneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error { return c.runDiff(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "file with the changed object; - reads standard input")
	flags.StringArrayVar(&o.set, "set", nil, "change of a field, as in spec.replicaCount=3; may be repeated")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets")
	flags.StringVarP(&o.output, "output", "o", "", "output format: json or yaml")
	return cmd
}

func (c *command) runDiff(ctx context.Context, o diffOptions, args []string) error {
	if err := oneOf("output", o.output, "", "json", "yaml"); err != nil {
		return err
	}
	cluster, owner, changed, err := c.change(ctx, o, args)
	if err != nil {
		return err
	}
	differ := c.differ(ctx, cluster, changed, o.showSecrets)
	if o.file == "" && len(o.set) == 0 {
		found, err := differ.Live(ctx, owner)
		if err != nil {
			return err
		}
		return c.printDiff(o.output, found, "desired")
	}
	found, err := differ.Change(ctx, owner, changed)
	if err != nil {
		return explainField(err, owner)
	}
	return c.printDiff(o.output, found, "changed")
}

// differenceView is the difference of an object in JSON and YAML.
type differenceView struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Before and After are YAML; empty for an absent object.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Note   string `json:"note,omitempty"`
	// Fields are the differing fields that other field managers own.
	Fields []fieldView `json:"fields,omitempty"`
}

type fieldView struct {
	Path    string `json:"path"`
	Manager string `json:"manager"`
}

// printDiff prints differences as text, json or yaml, and answers exitWaits if there are any.
func (c *command) printDiff(output string, found []inspect.Difference, to string) error {
	if output == "" {
		return c.printDifferences(found, "live", to)
	}
	views := []differenceView{}
	for _, difference := range found {
		if !difference.Differs() && difference.Note == "" {
			continue
		}
		version, kind := difference.ToAPIVersionAndKind()
		view := differenceView{
			APIVersion: version, Kind: kind, Namespace: difference.Namespace, Name: difference.Reference.Name,
			Before: difference.Before, After: difference.After, Note: difference.Note,
		}
		for _, field := range difference.Fields {
			view.Fields = append(view.Fields, fieldView(field))
		}
		views = append(views, view)
	}
	if err := c.printAs(output, views); err != nil {
		return err
	}
	if slices.ContainsFunc(found, inspect.Difference.Differs) {
		return answerError(exitWaits)
	}
	return nil
}

// differ returns the Differ for an object. It first warns if the operator has another version than
// the plugin's functions.
func (c *command) differ(ctx context.Context, cluster *inspect.Cluster, object *unstructured.Unstructured, showSecrets bool) inspect.Differ {
	functions, registered := c.options.Kinds[object.GroupVersionKind().GroupKind()]
	report, err := cluster.Report(ctx)
	if registered && err == nil && report.Version != "" && c.options.Version != "" && report.Version != c.options.Version {
		fmt.Fprintf(c.streams.ErrOut, "warning: the operator has version %s and this plugin %s; what the operator desires may differ\n",
			printable(report.Version), c.options.Version)
	}
	return inspect.Differ{Cluster: cluster, Functions: functions, Getter: c.flags, Mask: inspect.Mask{Show: showSecrets}}
}

// change reads an object and returns it with the change of the flags. owner is nil if it does not
// exist yet.
func (c *command) change(ctx context.Context, o diffOptions, args []string) (cluster *inspect.Cluster, owner, changed *unstructured.Unstructured, err error) {
	if o.file == "" {
		if cluster, owner, err = c.read(ctx, args); err != nil {
			return nil, nil, nil, err
		}
		changed, err = inspect.WithFields(owner, o.set)
		return cluster, owner, changed, err
	}
	if len(args) > 0 {
		return nil, nil, nil, errors.New("-f names the object; leave out KIND/NAME")
	}
	given, err := c.readFile(o.file)
	if err != nil {
		return nil, nil, nil, err
	}
	if given.GetNamespace() == "" {
		namespace, err := c.namespace()
		if err != nil {
			return nil, nil, nil, err
		}
		given.SetNamespace(namespace)
	}
	if cluster, err = c.cluster(); err != nil {
		return nil, nil, nil, err
	}
	owner, err = cluster.Get(ctx, inspect.ReferenceOf(given))
	if apierrors.IsNotFound(err) {
		owner, err = nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	changed, err = inspect.WithFields(inspect.Replaced(owner, given), o.set)
	return cluster, owner, changed, err
}

// readFile reads one object from a YAML or JSON file.
func (c *command) readFile(name string) (*unstructured.Unstructured, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(c.streams.In)
	} else {
		content, err = os.ReadFile(name) //nolint:gosec // The user names the file.
	}
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
		return nil, fmt.Errorf("%s: must be one object with apiVersion, kind and metadata.name", name)
	}
	return object, nil
}
