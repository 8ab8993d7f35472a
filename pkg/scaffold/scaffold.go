// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "sigs.k8s.io/yaml"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// Options say which kind is made.
type Options struct {
	// Group and Version are the API group and version of the kind; by default charts.example.com and v1alpha1.
	Group, Version string
	// Kind is by default the name of the chart in CamelCase, and Plural the plural of Kind.
	Kind, Plural string
	// Chart is the reference of the chart in watches.yaml.
	Chart string
	// Values are YAML values without which the chart does not render. The example has them.
	Values []byte
	// Operator is the ServiceAccount of the operator.
	Operator types.NamespacedName
}

// File is a file of a kind.
type File struct {
	Name, Content string
	// Object reports whether the file has Kubernetes objects that a cluster needs before the
	// operator serves the kind.
	Object bool
}

// Result has the files that New makes.
type Result struct {
	Kind  schema.GroupVersionKind
	Files []File
	// Widened are the fields where the CRD accepts more than values.schema.json says, or without it
	// more than the type in values.yaml, with the reason. The operator validates by the schema
	// nevertheless.
	Widened []string
	// HasSchema reports whether the chart has a values.schema.json.
	HasSchema bool
	// Notes name permissions that the RBAC may lack.
	Notes []string
}

var (
	kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	version  = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// setDefaults fills the options that the name of the chart determines, and checks them.
func (o *Options) setDefaults(chartName string) error {
	o.Group, o.Version = cmp.Or(o.Group, "charts.example.com"), cmp.Or(o.Version, "v1alpha1")
	o.Kind = cmp.Or(o.Kind, camelCase(chartName))
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: o.Kind})
	o.Plural = cmp.Or(o.Plural, plural.Resource)
	switch {
	case !kindName.MatchString(o.Kind):
		return fmt.Errorf("--kind: %q is no kind; use CamelCase of at most 63 letters and digits, as in Memcached", o.Kind)
	case !version.MatchString(o.Version):
		return fmt.Errorf("--version: %q is no version of an API; use for example v1alpha1 or v1", o.Version)
	case len(validation.IsDNS1123Subdomain(o.Group)) > 0 || !strings.Contains(o.Group, "."):
		return fmt.Errorf("--group: %q is no API group; use a domain, as in cache.example.com", o.Group)
	case strings.HasSuffix(o.Group, ".k8s.io") || strings.HasSuffix(o.Group, ".kubernetes.io"):
		return fmt.Errorf("--group: %q is reserved for Kubernetes; use a domain of your own, as in cache.example.com", o.Group)
	case len(validation.IsDNS1035Label(o.Plural)) > 0:
		return fmt.Errorf("--plural: %q is no name of a resource; use lower case letters and digits, as in memcacheds", o.Plural)
	}
	return nil
}

func (o *Options) singular() string { return strings.ToLower(o.Kind) }

// camelCase returns the name of a chart as a kind: demo-app is DemoApp.
func camelCase(name string) string {
	var kind strings.Builder
	upper := true
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			upper = true
		case upper:
			kind.WriteRune(unicode.ToUpper(r))
			upper = false
		default:
			kind.WriteRune(r)
		}
	}
	return kind.String()
}

// New makes a kind of a chart. An error names the file of the chart, or the flag, that is wrong.
func New(ctx context.Context, c *chart.Chart, o Options) (Result, error) {
	content, err := c.Content()
	if err != nil {
		return Result{}, err
	}
	if err := o.setDefaults(content.Name); err != nil {
		return Result{}, err
	}
	var values object
	if err := kyaml.Unmarshal(o.Values, &values); err != nil {
		return Result{}, fmt.Errorf("--values: %w", err)
	}
	spec, widened, err := specOf(content)
	if err != nil {
		return Result{}, err
	}
	rendered, err := render(ctx, c, o, content, values)
	if err != nil {
		return Result{}, err
	}
	example, err := o.example(content, values != nil)
	if err != nil {
		return Result{}, err
	}
	crd, err := kyaml.Marshal(o.crd(c, spec))
	if err != nil {
		return Result{}, err
	}
	rules, err := o.rules(rendered)
	if err != nil {
		return Result{}, err
	}
	users, err := o.userRoles()
	if err != nil {
		return Result{}, err
	}
	return Result{
		Kind: schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind},
		Files: []File{
			{Name: "crd.yaml", Content: string(crd), Object: true},
			{Name: "rbac.yaml", Content: rules, Object: true},
			{Name: "user-roles.yaml", Content: users, Object: true},
			{Name: "watches.yaml", Content: o.entry(c, rendered)},
			{Name: "example.yaml", Content: example},
		},
		Widened: widened, HasSchema: content.Schema != nil, Notes: rendered.notes,
	}, nil
}

// specOf returns the schema of the values of a chart.
func specOf(content chart.Content) (spec object, widened []string, err error) {
	if content.Schema == nil {
		spec = specFromDefaults(content, usesOf(content, "spec", &widened), content.Values)
		return spec, sortedLines(widened), nil
	}
	root, err := parseSchema(content.Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("values.schema.json: %w; correct the file, or remove it to use the types of values.yaml", err)
	}
	conversion := &converter{root: root}
	spec = conversion.convert("spec", root, content.Values, nil)
	if spec["type"] != "object" {
		conversion.widen("spec", "the values are no object")
		spec = freeObject()
	}
	delete(spec, "nullable")
	if spec[preserve] == true {
		properties, _ := spec["properties"].(object)
		if properties == nil {
			properties = object{}
		}
		var further []string
		for name, schema := range specFromDefaults(content, usesOf(content, "spec", &further), content.Values)["properties"].(object) {
			if _, declared := properties[name]; declared {
				further = slices.DeleteFunc(further, func(line string) bool {
					return strings.HasPrefix(line, "spec."+name+".") || strings.HasPrefix(line, "spec."+name+":")
				})
				continue
			}
			properties[name] = schema
		}
		spec["properties"] = properties
		conversion.widened = append(conversion.widened, sortedLines(further)...)
	}
	return spec, conversion.widened, nil
}

// sortedLines returns lines in order, each once.
func sortedLines(lines []string) []string {
	slices.Sort(lines)
	return slices.Compact(lines)
}

// specFromDefaults returns the schema of the values of a chart without values.schema.json.
func specFromDefaults(content chart.Content, u uses, values object) object {
	spec := u.fromDefaults("", values, false)
	properties, _ := spec["properties"].(object)
	if properties == nil {
		properties = object{}
	}
	for name, dependency := range content.Dependencies {
		defaults, _ := values[name].(object)
		// The defaults of the parent chart for the sub-chart are part of these values.
		*u.widened = slices.DeleteFunc(*u.widened, func(line string) bool { return strings.HasPrefix(line, u.at+"."+name+".") })
		below := specFromDefaults(dependency, u.below(name, usesOf(dependency, u.at+"."+name, u.widened)), merged(dependency.Values, defaults))
		below[preserve] = true // The condition of a dependency is a field that templates do not read.
		properties[name] = below
	}
	*u.widened = slices.DeleteFunc(*u.widened, func(line string) bool { return strings.HasPrefix(line, u.at+".global.") })
	properties["global"] = freeObject()
	if len(content.Dependencies) > 0 {
		properties["tags"] = freeObject()
	}
	spec["properties"] = properties
	return spec
}

// merged returns defaults with the values of a parent chart over them.
func merged(defaults, over object) object {
	result := maps.Clone(defaults)
	if result == nil {
		result = object{}
	}
	for name, value := range over {
		below, ok1 := result[name].(object)
		above, ok2 := value.(object)
		if ok1 && ok2 {
			value = merged(below, above)
		}
		result[name] = value
	}
	return result
}

// crd returns the CustomResourceDefinition.
func (o *Options) crd(c *chart.Chart, spec object) object {
	spec["description"] = "spec has the values of the chart. They are merged over its defaults."
	column := func(name, kind, path, description string) any {
		return object{"name": name, "type": kind, "jsonPath": path, "description": description}
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": o.Plural + "." + o.Group},
		"spec": object{
			"group": o.Group, "scope": "Namespaced",
			"names": object{
				"kind": o.Kind, "listKind": o.Kind + "List", "plural": o.Plural, "singular": o.singular(), "categories": []any{apimeta.Category},
			},
			"versions": []any{object{
				"name": o.Version, "served": true, "storage": true, "subresources": object{"status": object{}},
				"additionalPrinterColumns": []any{
					column("Ready", "string", `.status.conditions[?(@.type=="Ready")].status`, "Whether the release is deployed and healthy."),
					column("Reason", "string", `.status.conditions[?(@.type=="Ready")].reason`, "Reason of the condition Ready."),
					column("Revision", "integer", ".status.deployedRelease.revision", "Revision of the Helm release."),
					column("Chart", "string", ".status.deployedRelease.chartVersion", "Version of the deployed chart."),
					column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
				},
				"schema": object{"openAPIV3Schema": object{
					"type": "object", "description": fmt.Sprintf("%s is a Helm release of the chart %s.", o.Kind, c.Name()),
					"properties": object{
						"apiVersion": object{"type": "string"}, "kind": object{"type": "string"}, "metadata": object{"type": "object"},
						"spec": spec, "release": release(), "status": status(),
					},
					"x-kubernetes-validations": []any{object{
						"fieldPath": ".metadata", "rule": "self.metadata.name.size() <= 53",
						"message": "metadata.name must have at most 53 characters: it is the name of the Helm release",
					}},
				}},
			}},
		},
	}
}

// release returns the schema of the object release, whose fields the operator validates.
func release() object {
	schema := freeObject()
	schema["description"] = "release has the release policy, such as suspend and upgradeWindow, waitFor and valuesFrom. It goes over watches.yaml."
	return schema
}

// status returns the schema of the status that the operator writes. Fields that are not listed are
// kept, because the operator reads them after a restart.
func status() object {
	text, number := object{"type": "string"}, object{"type": "integer", "format": "int64"}
	return object{
		"type": "object", preserve: true, "description": "status is the observed state. The operator writes it.",
		"properties": object{
			"observedGeneration": number,
			"conditions": object{
				"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
				"items": object{
					"type": "object", "required": []any{"type", "status"}, preserve: true,
					"properties": object{
						"type": text, "status": text, "reason": text, "message": text, "observedGeneration": number,
						"lastTransitionTime": object{"type": "string", "format": "date-time"},
					},
				},
			},
			"deployedRelease": object{
				"type": "object", preserve: true,
				"properties": object{"name": text, "revision": number, "chart": text, "chartVersion": text},
			},
		},
	}
}

// entry returns the entry of watches.yaml.
func (o *Options) entry(c *chart.Chart, rendered rendering) string {
	scope := "  # All objects of the chart are in the namespace of the release. Others are refused.\n  scope: Namespace\n"
	if rendered.beyond != "" {
		scope = "  # The chart has objects outside the namespace of the release: " + rendered.beyond + ".\n  scope: Cluster\n"
	}
	path, _ := yaml.Marshal(o.Chart)
	return fmt.Sprintf(`# The entry of the kind %[1]s in the file of the flag --watches-file. It is no Kubernetes object. The path of the chart is
# relative to the working directory of the operator.
- group: %[2]s
  version: %[3]s
  kind: %[1]s
  # Version %[4]s of the chart %[5]s.
  chart: %[6]s%[7]s`, o.Kind, o.Group, o.Version, c.Version(), c.Name(), path, scope)
}

// example returns an object with the values of values.yaml and their comments.
func (o *Options) example(content chart.Content, withValues bool) (string, error) {
	spec := &yaml.Node{Kind: yaml.MappingNode}
	texts := [][]byte{content.ValuesText}
	if withValues {
		texts = append(texts, o.Values)
	}
	for _, text := range texts {
		var document yaml.Node
		if err := yaml.Unmarshal(text, &document); err != nil {
			return "", fmt.Errorf("values.yaml: %w", err)
		}
		if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
			continue
		}
		if over := document.Content[0]; len(spec.Content) > 0 {
			mergeNodes(spec, over)
		} else {
			spec = over
		}
	}
	text := func(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} }
	if len(spec.Content) == 0 {
		spec.Style = yaml.FlowStyle
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		text("apiVersion"), text(o.Group + "/" + o.Version), text("kind"), text(o.Kind),
		text("metadata"),
		{Kind: yaml.MappingNode, Content: []*yaml.Node{text("name"), text(o.singular() + "-sample")}},
		text("spec"), spec,
	}}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return "", fmt.Errorf("values.yaml: %w", err)
	}
	return out.String(), nil
}

// mergeNodes sets the fields of a mapping, and keeps its comments.
func mergeNodes(target, over *yaml.Node) {
	for i := 0; i+1 < len(over.Content); i += 2 {
		key, value := over.Content[i], over.Content[i+1]
		at := slices.IndexFunc(target.Content, func(node *yaml.Node) bool { return node.Value == key.Value })
		for at >= 0 && at%2 == 1 { // A value with the text of a key.
			next := slices.IndexFunc(target.Content[at+1:], func(node *yaml.Node) bool { return node.Value == key.Value })
			if at = at + 1 + next; next < 0 {
				at = -1
			}
		}
		switch {
		case at < 0:
			target.Content = append(target.Content, key, value)
		case target.Content[at+1].Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			target.Content[at+1].Style = 0
			mergeNodes(target.Content[at+1], value)
		default:
			value.LineComment = cmp.Or(value.LineComment, target.Content[at+1].LineComment)
			target.Content[at+1] = value
		}
	}
}
