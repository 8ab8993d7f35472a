// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/inspect/crd"
)

// offlineOptions are the flags of commands that read files and no cluster.
type offlineOptions struct {
	files              []string
	watchesFile, chart string
	kubeVersion        string
	apiVersions        []string
	imageRegistry      string
	images             map[string]string
	showSecrets        bool
}

func (o *offlineOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or directory with objects; - reads standard input; may be repeated")
	flags.StringVar(&o.watchesFile, "watches-file", "", "watches.yaml with the charts of kinds")
	flags.StringVar(&o.chart, "chart", "", "directory or archive of the chart of all kinds whose spec is the values")
	flags.StringVar(&o.kubeVersion, "kube-version", "", "version of Kubernetes that charts see, such as 1.33.0")
	flags.StringSliceVar(&o.apiVersions, "api-versions", nil, "further API versions and kinds that charts see, such as monitoring.coreos.com/v1/ServiceMonitor")
	flags.StringVar(&o.imageRegistry, "image-registry", "", "the flag --image-registry of the operator")
	flags.StringToStringVar(&o.images, "images", nil, "the flag --images of the operator")
	flags.BoolVar(&o.showSecrets, "show-secrets", false, "show secrets")
}

// offline is what files say, without a cluster.
type offline struct {
	inspect.Offline

	command     *command
	options     offlineOptions
	definitions map[schema.GroupVersionKind]*crd.Definition
	// chart loads the chart of --chart, once.
	chart func() (*chart.Chart, error)
	// given are the objects whose kind the operator serves.
	given []*unstructured.Unstructured
}

// readOffline reads the files. Objects without a namespace get the namespace of the flags, unless their
// kind is known to be cluster-scoped.
func (c *command) readOffline(ctx context.Context, o offlineOptions) (*offline, error) {
	if len(o.files) == 0 {
		return nil, errors.New("-f: name a file or a directory with objects")
	}
	if o.watchesFile != "" && o.chart != "" {
		return nil, errors.New("--chart and --watches-file: give one of them")
	}
	table, err := images.Parse(o.imageRegistry, o.images)
	if err != nil {
		return nil, err
	}
	read := &offline{
		Offline: inspect.Offline{
			Images: table, KubeVersion: o.kubeVersion, APIVersions: o.apiVersions, Mask: inspect.Mask{Show: o.showSecrets},
		},
		command: c, options: o, definitions: map[schema.GroupVersionKind]*crd.Definition{},
		chart: sync.OnceValues(func() (*chart.Chart, error) { return chart.Load(ctx, o.chart, chart.Source{}) }),
	}
	builder := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	var names []string
	for _, name := range o.files {
		if name == "-" {
			builder.Stream(c.streams.In, "standard input")
		} else {
			names = append(names, name)
		}
	}
	infos, err := builder.FilenameParam(false, &resource.FilenameOptions{Filenames: names, Recursive: true}).Do().Infos()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		object, isObject := info.Object.(*unstructured.Unstructured)
		if !isObject {
			return nil, fmt.Errorf("%s: unexpected %T", info.Source, info.Object)
		}
		if object.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
			read.Objects = append(read.Objects, object)
			continue
		}
		if err := read.define(object); err != nil {
			return nil, fmt.Errorf("%s: CustomResourceDefinition %s: %w", info.Source, object.GetName(), err)
		}
	}
	if err := read.choose(); err != nil {
		return nil, err
	}
	return read, nil
}

// define adds a CustomResourceDefinition.
func (r *offline) define(object *unstructured.Unstructured) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return err
	}
	found, err := crd.Read(definition)
	for _, definition := range found {
		r.definitions[definition.Kind] = definition
	}
	return err
}

// choose picks the objects of kinds that the operator serves.
func (r *offline) choose() error {
	namespace, err := r.command.namespace()
	if err != nil {
		return err
	}
	for _, object := range r.Objects {
		registered := r.registered(object)
		definition := r.definitions[object.GroupVersionKind()]
		if !registered && definition == nil && (r.options.watchesFile == "" && r.options.chart == "" || inspect.ReferenceOf(object).IsBuiltIn()) {
			continue
		}
		if object.GetNamespace() == "" && (definition == nil || definition.Internal.Spec.Scope == "Namespaced") {
			object.SetNamespace(namespace)
		}
		r.given = append(r.given, object)
	}
	if len(r.given) == 0 {
		return errors.New("-f: no object of a kind that the operator serves; for other kinds, give their CRD with -f, and --watches-file or --chart")
	}
	return nil
}

// registered reports whether an object is of a kind of the operator's own.
func (r *offline) registered(object *unstructured.Unstructured) bool {
	kind := object.GroupVersionKind()
	_, hasFunctions := r.command.options.Kinds[kind.GroupKind()]
	return hasFunctions || !inspect.ReferenceOf(object).IsBuiltIn() && r.command.options.Scheme != nil && r.command.options.Scheme.Recognizes(kind)
}

// admitted returns an object as the API server stores it, and the facts that the files do not have.
// Without its CRD, the object stays as it is.
func (r *offline) admitted(ctx context.Context, object *unstructured.Unstructured) (admitted *unstructured.Unstructured, unknown []string, err error) {
	definition := r.definitions[object.GroupVersionKind()]
	if definition == nil {
		return object, []string{fmt.Sprintf("the defaults of kind %s; add its CRD to the files", object.GetKind())}, nil
	}
	admitted = object.DeepCopy()
	for _, field := range definition.Default(admitted.Object) {
		err = errors.Join(err, fmt.Errorf("%s: unknown field", field))
	}
	for _, refused := range definition.Validate(ctx, admitted.Object) {
		err = errors.Join(err, r.Mask.WithoutSecrets(refused, admitted))
	}
	return admitted, nil, err
}

// judge returns the desired state of an object as the API server stores it, and the facts that only a
// cluster has. The errors name the object.
func (r *offline) judge(ctx context.Context, object *unstructured.Unstructured) (state *inspect.OfflineState, unknown []string, err error) {
	admitted, unknown, err := r.admitted(ctx, object)
	if err == nil {
		state, err = r.desired(ctx, admitted)
	}
	if err != nil {
		return nil, unknown, of(inspect.ReferenceOf(object).String(), err)
	}
	return state, append(unknown, state.Unknown...), nil
}

// desired returns the desired state of an object.
func (r *offline) desired(ctx context.Context, object *unstructured.Unstructured) (*inspect.OfflineState, error) {
	functions := r.command.options.Kinds[object.GroupVersionKind().GroupKind()]
	if functions.Children != nil {
		return r.Children(object, functions)
	}
	intended := inspect.Intended{Namespace: object.GetNamespace(), Name: object.GetName()}
	var err error
	switch {
	case functions.Chart != nil && r.options.chart == "":
		intended.Chart, err = functions.Chart()
	case r.options.chart != "":
		intended.Chart, err = r.chart()
		intended.Values, _, _ = unstructured.NestedMap(object.Object, "spec")
	case r.options.watchesFile != "" && r.command.options.Intended != nil:
		intended, err = r.command.options.Intended(ctx, r.options.watchesFile, object)
	case r.registered(object):
		err = inspect.ErrNoFunctions
	default:
		err = errors.New("the chart of the kind is not known: name it with --watches-file or --chart")
	}
	if err != nil {
		return nil, err
	}
	return r.Release(ctx, object, functions, intended)
}

func (c *command) render() *cobra.Command {
	var o offlineOptions
	cmd := &cobra.Command{
		Use:   "render -f FILE... [--watches-file FILE | --chart CHART]",
		Short: "Show the objects that the operator would apply, without a cluster",
		Long: "Show the objects that the operator would apply for the objects in files, in their order and with the hooks last. No cluster is asked.\n\n" +
			"Other objects in the files stand for the cluster: Secrets and ConfigMaps that fields refer to, Namespaces, and CRDs, whose defaults\n" +
			"are set. A warning names what only a cluster knows, and what is assumed instead. Secrets are masked. Objects lack the reference to\n" +
			"their owner. Exit codes: 0 rendered, 3 failed.",
		Example: "  kubectl demoapp render -f web.yaml\n\n" +
			"  # A kind of watches.yaml, with the defaults of its CRD\n" +
			"  kubectl demoapp render -f cache.yaml -f config/crd --watches-file watches.yaml\n\n" +
			"  # What a newer chart makes of it\n" +
			"  kubectl demoapp render -f cache.yaml --chart charts/cache-2.0.0.tgz",
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runRender(cmd.Context(), o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *command) runRender(ctx context.Context, o offlineOptions) error {
	read, err := c.readOffline(ctx, o)
	if err != nil {
		return err
	}
	var failed []error
	for _, object := range read.given {
		name := inspect.ReferenceOf(object).String()
		state, unknown, err := read.judge(ctx, object)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		c.warnUnknown(name, unknown)
		if err := c.printRendered(name, state); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// of names an object in each error of a joined one.
func of(name string, err error) error {
	var all []error
	for _, err := range joined(err) {
		all = append(all, fmt.Errorf("%s: %w", name, err))
	}
	return errors.Join(all...)
}

// warnUnknown names what only a cluster knows about an object.
func (c *command) warnUnknown(name string, unknown []string) {
	for _, line := range unknown {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s: not known without a cluster: %s\n", printable(name), printable(line))
	}
}

// printRendered prints the desired state of an owner as YAML. A comment names the owner, the template and the
// events of a hook.
func (c *command) printRendered(name string, state *inspect.OfflineState) error {
	for _, object := range state.Objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		from := name
		if object.Source != "" {
			from += ", " + object.Source
		}
		if len(object.Hooks) > 0 {
			from += ", hook: " + strings.Join(object.Hooks, ", ")
		}
		if _, err := fmt.Fprintf(c.streams.Out, "---\n# %s\n%s", printable(from), text); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) validate() *cobra.Command {
	var o offlineOptions
	cmd := &cobra.Command{
		Use:   "validate -f FILE... [--watches-file FILE | --chart CHART]",
		Short: "Check objects against their CRD and their chart, without a cluster",
		Long: "Check objects in files as the API server and the operator do: unknown fields, the schema and the rules of their CRD, the schema of\n" +
			"the chart, and its templates. No cluster is asked. CRDs come from the files. Each line of the output is an error.\n" +
			"Exit codes: 0 valid, 1 invalid, 3 failed.",
		Example: "  kubectl demoapp validate -f artifacts/crds -f web.yaml\n\n" +
			"  # All objects of a repository\n  kubectl demoapp validate -f config/crd -f clusters/production --watches-file watches.yaml",
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runValidate(cmd.Context(), o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (c *command) runValidate(ctx context.Context, o offlineOptions) error {
	read, err := c.readOffline(ctx, o)
	if err != nil {
		return err
	}
	valid := true
	for _, object := range read.given {
		name := inspect.ReferenceOf(object).String()
		_, unknown, err := read.judge(ctx, object)
		if errors.Is(err, inspect.ErrNoFunctions) {
			unknown, err = append(unknown, inspect.ErrNoFunctions.Error()), nil
		}
		c.warnUnknown(name, unknown)
		if err == nil {
			fmt.Fprintf(c.streams.Out, "%s: valid\n", printable(name))
			continue
		}
		valid = false
		for _, err := range joined(err) {
			fmt.Fprintln(c.streams.Out, printable(err.Error()))
		}
	}
	if !valid {
		return answerError(exitWaits)
	}
	return nil
}
