// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/cluster"
)

// kindCount is a number of custom resources of a plain Go kind.
type kindCount struct {
	// folder is the name of the kind's folder in artifacts/kinds.
	folder string
	count  int
}

// parseKinds reads numbers of custom resources such as "website=1000,ecommerceplatform=200".
func parseKinds(text string) ([]kindCount, error) {
	var kinds []kindCount
	for field := range strings.SplitSeq(text, ",") {
		folder, number, _ := strings.Cut(strings.TrimSpace(field), "=")
		count, err := strconv.Atoi(number)
		if err != nil || count < 1 || folder == "" || folder != filepath.Base(folder) {
			return nil, fmt.Errorf("-kinds: %q is not a folder of artifacts/kinds with a number, such as website=1000", field)
		}
		kinds = append(kinds, kindCount{folder: folder, count: count})
	}
	return kinds, nil
}

// composed are the folders of the kinds that a kind has as children, directly or not.
var composed = map[string][]string{
	"appstack":          {"postgresql", "backup"},
	"ecommerceplatform": {"postgresql", "backup"},
	"postgresql":        {"backup"},
}

// uniqueFields are texts that two custom resources of a kind must not share.
var uniqueFields = map[string][]string{
	"appconfig":         {"spec", "application"},
	"ecommerceplatform": {"spec", "ingress", "host"},
}

// subject is the kind that is measured.
type subject struct {
	folder, kind string
	resource     schema.GroupVersionResource
	// involved are the resource and those of the kinds that the kind has as children.
	involved []schema.GroupVersionResource
	// example is the custom resource of example.yaml, and beside are the other objects of that file.
	example *unstructured.Unstructured
	beside  []*unstructured.Unstructured
}

// files returns the paths of a file of the kind and of the kinds that it has as children.
func (s *subject) files(root, name string) []string {
	var paths []string
	for _, folder := range append([]string{s.folder}, composed[s.folder]...) {
		paths = append(paths, filepath.Join(root, "artifacts", "kinds", folder, name))
	}
	return paths
}

// loadSubject reads the files of a kind.
func loadSubject(c *cluster.Cluster, root, folder string) (*subject, error) {
	s := &subject{folder: folder}
	for _, file := range s.files(root, "crd.yaml") {
		crds, err := c.Objects(file)
		if err != nil {
			return nil, err
		}
		if len(crds) != 1 {
			return nil, fmt.Errorf("%s has %d objects, want one CRD", file, len(crds))
		}
		resource, kind, err := servedBy(crds[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if s.kind == "" {
			s.resource, s.kind = resource, kind
		}
		s.involved = append(s.involved, resource)
	}
	example := filepath.Join(root, "artifacts", "kinds", folder, "example.yaml")
	objects, err := c.Objects(example)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GroupVersionKind() == s.resource.GroupVersion().WithKind(s.kind) && s.example == nil {
			s.example = object
		} else {
			s.beside = append(s.beside, object)
		}
	}
	if s.example == nil {
		return nil, fmt.Errorf("%s has no %s", example, s.kind)
	}
	return s, nil
}

// servedBy returns the resource and the kind of the stored version of a CRD.
func servedBy(crd *unstructured.Unstructured) (schema.GroupVersionResource, string, error) {
	group, _, err1 := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, err2 := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	kind, _, err3 := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, err4 := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return schema.GroupVersionResource{}, "", err
	}
	for _, item := range versions {
		if version, ok := item.(map[string]any); ok && version["storage"] == true {
			name, _ := version["name"].(string)
			return schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, kind, nil
		}
	}
	return schema.GroupVersionResource{}, "", fmt.Errorf("CRD %s has no stored version", crd.GetName())
}

// named returns the custom resource of a name.
func (s *subject) named(name string) (*unstructured.Unstructured, error) {
	custom := s.example.DeepCopy()
	custom.SetName(name)
	custom.SetNamespace("")
	field, ok := uniqueFields[s.folder]
	if !ok {
		return custom, nil
	}
	text, found, err := unstructured.NestedString(custom.Object, field...)
	if err != nil || !found {
		return custom, err
	}
	return custom, unstructured.SetNestedField(custom.Object, name+"-"+text, field...)
}
