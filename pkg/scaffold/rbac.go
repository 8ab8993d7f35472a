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
	"k8s.io/client-go/kubernetes/scheme"
	kyaml "sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// maxSwitches bounds the renderings with one value switched on.
const maxSwitches = 100

// sampleNamespace is the namespace of the renderings.
const sampleNamespace = "default"

// clusterScoped are the kinds of Kubernetes that are not namespaced. Kinds of CRDs are taken for
// namespaced.
var clusterScoped = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService", "StorageClass",
	"VolumeAttachment", "CSIDriver", "CSINode", "PriorityClass", "RuntimeClass", "IngressClass", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy",
	"MutatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration", "CertificateSigningRequest", "ClusterTrustBundle",
}

// rendering is what renderings of a chart have in common.
type rendering struct {
	// resources are the resources of the objects.
	resources map[schema.GroupResource]bool
	// grants are what Roles of the chart grant: the operator can only grant what it may do itself.
	grants []rbacv1.PolicyRule
	// bound are the roles that bindings of the chart name and the chart does not have.
	bound map[schema.GroupResource][]string
	// beyond names an object outside of the namespace of the release; empty without one.
	beyond string
	crds   bool
	notes  []string
}

// render renders the chart with its defaults, and with each value that is false switched on, so
// that the permissions cover what users can switch on.
func render(ctx context.Context, c *chart.Chart, o Options, content chart.Content, values object) (rendering, error) {
	name := o.singular() + "-sample"
	objects, err := helm.Template(ctx, c, sampleNamespace, name, values)
	if err != nil {
		return rendering{}, fmt.Errorf("%w; name the values that it needs with --values FILE", firstLine(err))
	}
	r := rendering{resources: map[schema.GroupResource]bool{}, bound: map[schema.GroupResource][]string{}, crds: content.CRDs}
	for _, object := range objects {
		if beyond(object) && r.beyond == "" {
			r.beyond = object.GetKind() + " " + object.GetName()
		}
		r.add(object)
	}
	switches := switchesOf(nil, content)
	if len(switches) > maxSwitches {
		r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: %d of %d switches of values.yaml were not tried", len(switches)-maxSwitches, len(switches)))
		switches = switches[:maxSwitches]
	}
	for _, path := range switches {
		on := runtime.DeepCopyJSON(asJSON(values))
		if err := unstructured.SetNestedField(on, true, path...); err != nil {
			continue // The user's values have no object there.
		}
		more, err := helm.Template(ctx, c, sampleNamespace, name, on)
		if err != nil {
			r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: does not cover %s=true, with which the chart does not render", strings.Join(path, ".")))
			continue
		}
		for _, object := range more {
			if r.beyond == "" && beyond(object) {
				r.notes = append(r.notes, fmt.Sprintf("watches.yaml: scope Namespace refuses %s %s, which %s=true adds",
					object.GetKind(), object.GetName(), strings.Join(path, ".")))
				continue
			}
			r.add(object)
		}
	}
	slices.Sort(r.notes)
	r.notes = slices.Compact(r.notes)
	return r, nil
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

// switchesOf returns the paths of the defaults that are false, in the chart and its sub-charts.
func switchesOf(path []string, content chart.Content) [][]string {
	values := content.Values
	found := falseIn(path, values)
	for _, name := range slices.Sorted(maps.Keys(content.Dependencies)) {
		found = append(found, switchesOf(append(slices.Clone(path), name), content.Dependencies[name])...)
	}
	return found
}

func falseIn(path []string, values object) [][]string {
	var found [][]string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clone(path), name)
		switch value := values[name].(type) {
		case bool:
			if !value {
				found = append(found, at)
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
	return slices.Contains(clusterScoped, object.GetKind()) || namespace != "" && namespace != sampleNamespace
}

func (r *rendering) add(object *unstructured.Unstructured) {
	kind := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	r.resources[plural.GroupResource()] = true
	if !scheme.Scheme.Recognizes(kind) && kind.Kind != "CustomResourceDefinition" {
		r.notes = append(r.notes, fmt.Sprintf("rbac.yaml: %s is taken for the resource of %s; correct it if the CRD has another name", plural.GroupResource(), kind.Kind))
	}
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
		"# objects that the chart renders with its defaults and with each switch of values.yaml.\n"
	return documents(about, role, binding)
}

// userRoles returns the roles of users for the kind, as those of artifacts/kinds.
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
