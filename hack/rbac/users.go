// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// boundByName are the kinds whose authors reach more than the ClusterRole edit of Kubernetes
// allows, and the reason. Their editor role is part of no other.
var boundByName = map[string]string{
	"EcommercePlatform": "a platform has a ServiceMonitor, and reserves the host of its Ingress in all namespaces",
}

var (
	readVerbs = []string{"get", "list", "watch"}
	editVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
)

// userRoles returns the roles of users for the kind. None may write the status or the subresource
// finalizers.
func (k kind) userRoles() string {
	names := k.crd.Spec.Names
	viewable, scalable := []string{names.Plural + "/status"}, false
	for _, version := range k.crd.Spec.Versions {
		scalable = scalable || version.Subresources != nil && version.Subresources.Scale != nil
	}
	grant := func(verbs []string, resources ...string) rule {
		return rule{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{k.crd.Spec.Group}, Resources: resources, Verbs: verbs}}
	}
	editing := []rule{grant(editVerbs, names.Plural)}
	if scalable {
		viewable = append(viewable, names.Plural+"/scale")
		editing = append(editing, grant([]string{"get", "update", "patch"}, names.Plural+"/scale"))
	}
	editing = append(editing, grant([]string{"get"}, names.Plural+"/status"))
	viewing := []rule{grant(readVerbs, names.Plural), grant([]string{"get"}, viewable...)}

	header := generatedFrom(kindsDir+"/"+k.name+"/crd.yaml") +
		fmt.Sprintf("# What users may do with the kind %s. No role may write the status or the subresource finalizers.\n", names.Kind)
	partOf, about := []string{"edit", "admin"}, ""
	if reason, ok := boundByName[names.Kind]; ok {
		partOf = nil
		about = fmt.Sprintf("# Authors of this kind reach more than edit and admin allow: %s.\n"+
			"# So this role is part of no other: bind it by name.\n", reason)
	}
	return header + documents(
		clusterRoleOf(names.Singular+"-viewer", []string{"view", "edit", "admin"}, viewing),
		about+clusterRoleOf(names.Singular+"-editor", partOf, editing),
	)
}
