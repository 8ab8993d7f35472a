// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Permission is one verb on one resource, for all objects or for one name. In the core API group,
// Group is empty.
type Permission struct {
	Group, Resource, Verb, Name string
}

// String implements fmt.Stringer.
func (p Permission) String() string {
	text := fmt.Sprintf("%s %s", p.Verb, p.Resource)
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Name != "" {
		text += "/" + p.Name
	}
	return text
}

// ReadPermissions returns the permissions in the Roles and ClusterRoles of a file. A relative path
// begins at the root of the repository.
func (c *Cluster) ReadPermissions(name string) ([]Permission, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.root, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	defer file.Close()
	var granted []Permission
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var role rbacv1.ClusterRole // A Role has rules of the same form.
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return granted, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the rules of %s: %w", name, err)
		}
		for _, rule := range role.Rules {
			granted = append(granted, permissionsIn(rule)...)
		}
	}
}

func permissionsIn(rule rbacv1.PolicyRule) []Permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var permissions []Permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					permissions = append(permissions, Permission{Group: group, Resource: resource, Verb: verb, Name: name})
				}
			}
		}
	}
	return permissions
}

// IsUsedBy reports whether a request needs the permission. A list of the permission is also used by
// a watch, which streams the list: the client sends a list only if the API server does not support
// that.
func (p Permission) IsUsedBy(request AuditEvent) bool {
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	if request.Group != p.Group || request.Resource != resource || request.Subresource != subresource {
		return false
	}
	if p.Name != "" && request.Name != p.Name {
		return false
	}
	// Server-side apply of an absent object needs the permission to create it.
	createdByApply := request.Verb == "patch" && request.Code == http.StatusCreated
	streamed := p.Verb == "list" && request.Verb == "watch"
	return request.Verb == p.Verb || streamed || p.Verb == "create" && createdByApply
}
