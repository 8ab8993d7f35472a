// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// maxSwitches bounds the renderings with one value switched on.
const maxSwitches = 100

// sampleNamespace is the namespace of the renderings.
const sampleNamespace = "default"

// rendering has the common parts of renderings of a chart.
type rendering struct {
	// resources are the resources of the objects.
	resources map[schema.GroupResource]bool
	// grants are the rules in Roles of the chart: the operator can grant only permissions that it has.
	grants []rbacv1.PolicyRule
	// bound are the roles that bindings of the chart name and the chart does not have.
	bound map[schema.GroupResource][]string
	// beyond names an object outside of the namespace of the release; empty without one.
	beyond string
	crds   bool
	notes  []string
	// rendered are the kinds of the objects that were rendered, by template.
	rendered map[string]map[schema.GroupKind]bool
}

// render renders the chart with its defaults, and with each value changed that a condition may be about,
// so that the permissions cover objects that users can switch on. Kinds that no rendering has are taken
// from the texts of the templates.
func render(ctx context.Context, c *chart.Chart, o Options, content chart.Content, values object) (rendering, error) {
	name := o.singular() + "-sample"
	objects, err := helm.Template(ctx, c, sampleNamespace, name, values, helm.TemplateOptions{})
	if err != nil {
		return rendering{}, fmt.Errorf("%w; name the values that it needs with --values FILE", firstLine(err))
	}
	r := rendering{
		resources: map[schema.GroupResource]bool{}, bound: map[schema.GroupResource][]string{}, crds: content.CRDs,
		rendered: map[string]map[schema.GroupKind]bool{},
	}
	for _, object := range objects {
		if beyond(object.Unstructured) && r.beyond == "" {
			r.beyond = object.GetKind() + " " + object.GetName()
		}
		r.add(object)
	}
	switches := append(switchesOf(nil, content), comparedIn(content)...)
	if len(switches) > maxSwitches {
		r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: %d of %d values that conditions of templates read were not tried", len(switches)-maxSwitches, len(switches)))
		switches = switches[:maxSwitches]
	}
	for _, changed := range switches {
		on := runtime.DeepCopyJSON(asJSON(values))
		if err := unstructured.SetNestedField(on, changed.value, changed.path...); err != nil {
			continue // The user's values have no object there.
		}
		more, err := helm.Template(ctx, c, sampleNamespace, name, on, helm.TemplateOptions{})
		if err != nil {
			r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: does not cover %s, with which the chart does not render", changed))
			continue
		}
		for _, object := range more {
			if r.beyond == "" && beyond(object.Unstructured) {
				r.notes = append(r.notes, fmt.Sprintf("watches.yaml: scope Namespace refuses %s %s, which %s adds", object.GetKind(), object.GetName(), changed))
				r.renders(object)
				continue
			}
			r.add(object)
		}
	}
	r.addNamed(namedIn(content))
	if note := c.SchemaNote(); note != "" {
		r.notes = append(r.notes, note)
	}
	slices.Sort(r.notes)
	r.notes = slices.Compact(r.notes)
	return r, nil
}

// addNamed adds the resources of objects that the texts of templates name and no rendering had.
func (r *rendering) addNamed(templates map[string]named) {
	for _, template := range slices.Sorted(maps.Keys(templates)) {
		n, rendered := templates[template], r.rendered[template]
		var resources []string
		for _, kind := range slices.SortedFunc(maps.Keys(n.kinds), func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) }) {
			switch {
			case rendered[kind]:
				continue
			case helm.IsClusterScoped(kind.Kind) && r.beyond == "":
				r.notes = append(r.notes, fmt.Sprintf("watches.yaml: scope Namespace refuses the %s of %s, which no rendering had", kind.Kind, template))
				continue
			case kind.Group == rbacv1.GroupName:
				r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: add what the %s of %s grants, which no rendering had; the operator can only grant what it may do",
					kind.Kind, template))
			}
			resources = append(resources, r.addKind(kind).String())
		}
		switch {
		case n.none:
		case len(rendered) == 0 && len(resources) > 0:
			r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: no rendering had objects of %s; from its text come the permissions for %s",
				template, strings.Join(resources, ", ")))
		case len(rendered) == 0:
			r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: no rendering had objects of %s, and its text names no kind; add the permissions for its objects, if it has any", template))
		}
		if n.computed {
			r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: %s computes a kind or an apiVersion; add the permissions for further results", template))
		}
	}
}

// firstLine returns an error with the text in one line.
func firstLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// asJSON returns values with the types of JSON.
func asJSON(values object) object {
	result := object{}
	if text, err := kyaml.Marshal(values); err == nil {
		_ = kyaml.Unmarshal(text, &result)
	}
	return result
}

// change is another value than the default of a chart.
type change struct {
	path  []string
	value any
}

func (c change) String() string { return fmt.Sprintf("%s=%v", strings.Join(c.path, "."), c.value) }

// switchesOf switches each default on that is false, in the chart and its sub-charts.
func switchesOf(path []string, content chart.Content) []change {
	values := content.Values
	found := falseIn(path, values)
	for _, name := range slices.Sorted(maps.Keys(content.Dependencies)) {
		found = append(found, switchesOf(append(slices.Clone(path), name), content.Dependencies[name])...)
	}
	return found
}

func falseIn(path []string, values object) []change {
	var found []change
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clone(path), name)
		switch value := values[name].(type) {
		case bool:
			if !value {
				found = append(found, change{at, true})
			}
		case object:
			found = append(found, falseIn(at, value)...)
		}
	}
	return found
}

// beyond reports whether an object is outside of the namespace of the release.
func beyond(object *unstructured.Unstructured) bool {
	namespace := object.GetNamespace()
	return helm.IsClusterScoped(object.GetKind()) || namespace != "" && namespace != sampleNamespace
}

// renders records that a template rendered an object.
func (r *rendering) renders(object helm.Templated) {
	if r.rendered[object.Source] == nil {
		r.rendered[object.Source] = map[schema.GroupKind]bool{}
	}
	r.rendered[object.Source][object.GroupVersionKind().GroupKind()] = true
}

// addKind adds the resource of a kind, and returns it.
func (r *rendering) addKind(kind schema.GroupKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	resource := plural.GroupResource()
	r.resources[resource] = true
	if !slices.Contains(groupsOf(kind.Kind), kind.Group) {
		r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: %s is taken for the resource of %s; correct it if the CRD has another name", resource, kind.Kind))
	}
	return resource
}

func (r *rendering) add(object helm.Templated) {
	r.renders(object)
	kind := object.GroupVersionKind().GroupKind()
	r.addKind(kind)
	if kind.Group != rbacv1.GroupName {
		return
	}
	var content struct {
		Rules   []rbacv1.PolicyRule `json:"rules"`
		RoleRef rbacv1.RoleRef      `json:"roleRef"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &content); err != nil {
		r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: the rules of %s %s are not read: %v", kind.Kind, object.GetName(), firstLine(err)))
		return
	}
	r.grants = append(r.grants, content.Rules...)
	if name := content.RoleRef.Name; name != "" {
		role, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: rbacv1.GroupName, Kind: content.RoleRef.Kind})
		if !slices.Contains(r.bound[role.GroupResource()], name) {
			r.bound[role.GroupResource()] = append(r.bound[role.GroupResource()], name)
		}
	}
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// rules returns the ClusterRole of the operator for the kind, and its binding. The operator has the
// permissions for release records and events already.
func (o *Options) rules(r rendering) (string, error) {
	rules := []rbacv1.PolicyRule{
		rule(o.Group, []string{o.Plural}, "list", "watch", "patch"),
		rule(o.Group, []string{o.Plural + "/status"}, "patch"),
	}
	byGroup := map[string][]string{}
	for resource := range r.resources {
		byGroup[resource.Group] = append(byGroup[resource.Group], resource.Resource)
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		slices.Sort(byGroup[group])
		rules = append(rules, rule(group, byGroup[group], "get", "list", "watch", "create", "patch", "delete"))
	}
	if r.crds {
		rules = append(rules, rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "get", "list", "watch", "create"))
	}
	for _, role := range slices.SortedFunc(maps.Keys(r.bound), func(a, b schema.GroupResource) int { return cmp.Compare(a.Resource, b.Resource) }) {
		bind := rule(role.Group, []string{role.Resource}, "bind")
		bind.ResourceNames = slices.Sorted(slices.Values(r.bound[role]))
		rules = append(rules, bind)
	}
	for _, granted := range r.grants {
		if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return known.String() == granted.String() }) {
			rules = append(rules, granted)
		}
	}
	name := "demoapp-controller-" + o.singular()
	role := &rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: o.named(name), Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta: typeOf("ClusterRoleBinding"), ObjectMeta: o.named(name),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: o.Operator.Name, Namespace: o.Operator.Namespace}},
	}
	about := "# What the operator may do for the kind " + o.Kind + ", beside its permissions for release records and events: the kind itself, and the\n" +
		"# objects that the chart renders with its defaults and with other values, or that its templates name.\n"
	return documents(about, role, binding)
}

// userRoles returns the roles of users for the kind, as in artifacts/kinds.
func (o *Options) userRoles() (string, error) {
	aggregated := func(name string, to []string, verbs ...string) *rbacv1.ClusterRole {
		role := &rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: o.named(name), Rules: []rbacv1.PolicyRule{
			rule(o.Group, []string{o.Plural}, verbs...), rule(o.Group, []string{o.Plural + "/status"}, "get"),
		}}
		for _, whole := range to {
			role.Labels["rbac.authorization.k8s.io/aggregate-to-"+whole] = "true"
		}
		return role
	}
	return documents("# What users may do with the kind "+o.Kind+". No role may write the status or the subresource finalizers.\n",
		aggregated(o.singular()+"-viewer", []string{"view", "edit", "admin"}, "get", "list", "watch"),
		aggregated(o.singular()+"-editor", []string{"edit", "admin"},
			"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"))
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func (o *Options) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "demoapp-controller"}}
}

// documents returns objects as YAML documents.
func documents(about string, objects ...any) (string, error) {
	var texts []string
	for _, object := range objects {
		text, err := kyaml.Marshal(object)
		if err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	return about + strings.Join(texts, "---\n"), nil
}
