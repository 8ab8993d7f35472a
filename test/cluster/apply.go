// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// fieldManager is the field manager of objects that tests apply.
const fieldManager = "integration-test"

// establishTimeout bounds the time until a new CRD is served.
const establishTimeout = 30 * time.Second

// crdKind is the kind of the objects that InstallCRDs waits for.
var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// InstallCRDs applies the CRDs of files and folders and returns when their resources are served.
// Relative paths begin at the root of the repository.
func (c *Cluster) InstallCRDs(ctx context.Context, paths ...string) error {
	objects, err := c.load(paths)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() != crdKind {
			return fmt.Errorf("%s is no CRD", describe(object))
		}
		if err := c.ApplyObject(ctx, "", object); err != nil {
			return err
		}
	}
	for _, object := range objects {
		last, err := poll(ctx, func(ctx context.Context) (bool, error) { return c.isEstablished(ctx, object) })
		if err != nil {
			return fmt.Errorf("%s is not established: %w", describe(object), errors.Join(err, last))
		}
	}
	c.Mapper.Reset() // Kinds that were known before may have other versions now.
	for _, object := range objects {
		last, err := poll(ctx, func(context.Context) (bool, error) { return c.isDiscovered(object) })
		if err != nil {
			return fmt.Errorf("%s is not served: %w", describe(object), errors.Join(err, last))
		}
	}
	return nil
}

// InstallKinds installs the CRDs and the operator's permissions of all kinds of artifacts/kinds.
func (c *Cluster) InstallKinds(ctx context.Context) error {
	folders, err := filepath.Glob(filepath.Join(c.root, "artifacts", "kinds", "*"))
	if err != nil || len(folders) == 0 {
		return errors.Join(err, errors.New("artifacts/kinds has no folders"))
	}
	for _, folder := range folders {
		err := errors.Join(
			c.ApplyFiles(ctx, "", filepath.Join(folder, "rbac.yaml")),
			c.InstallCRDs(ctx, filepath.Join(folder, "crd.yaml")),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) isEstablished(ctx context.Context, crd *unstructured.Unstructured) (bool, error) {
	client, err := c.resource(crd, "")
	if err != nil {
		return false, err
	}
	live, err := client.Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	established, err := condition(live, "Established")
	return established["status"] == "True", err
}

// isDiscovered reports whether the discovery has the kind of an established CRD. The API server
// adds it later.
func (c *Cluster) isDiscovered(crd *unstructured.Unstructured) (bool, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return false, err
	}
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if err != nil {
		return false, err
	}
	_, err = c.Mapping(schema.GroupKind{Group: group, Kind: kind})
	return err == nil, err
}

// ApplyFiles applies the objects of YAML files, and of folders of such files, in their order.
// Relative paths begin at the root of the repository. Namespaced objects without a namespace are
// applied to namespace.
func (c *Cluster) ApplyFiles(ctx context.Context, namespace string, paths ...string) error {
	objects, err := c.load(paths)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.ApplyObject(ctx, namespace, object); err != nil {
			return err
		}
	}
	return nil
}

// Objects returns the objects of YAML files, and of folders of such files, in their order. Relative
// paths begin at the root of the repository.
func (c *Cluster) Objects(paths ...string) ([]*unstructured.Unstructured, error) {
	return c.load(paths)
}

// AwaitReady waits until an applied object has the condition Ready at its current generation.
func (c *Cluster) AwaitReady(ctx context.Context, t testing.TB, namespace string, object *unstructured.Unstructured) {
	t.Helper()
	client, err := c.resource(object, namespace)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(ctx, t, describe(object)+" ready", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready, err := condition(live, "Ready")
		if ready["status"] == "True" && ready["observedGeneration"] == live.GetGeneration() {
			return true, err
		}
		return false, errors.Join(err, fmt.Errorf("generation %d, Ready %v", live.GetGeneration(), ready))
	})
}

// condition returns a condition of an object; nil if the condition is absent.
func condition(object *unstructured.Unstructured, name string) (map[string]any, error) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if fields, ok := item.(map[string]any); ok && fields["type"] == name {
			return fields, err
		}
	}
	return nil, err
}

// ApplyObject applies one object, as ApplyFiles does.
func (c *Cluster) ApplyObject(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	client, err := c.resource(object, namespace)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := client.Apply(ctx, object.GetName(), object, options); err != nil {
		return fmt.Errorf("apply %s: %w", describe(object), err)
	}
	return nil
}

// resource returns a client for the resource of an object. The namespace is the object's own, or
// else namespace.
func (c *Cluster) resource(object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.Mapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("find resource of %s: %w", describe(object), err)
	}
	client := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return client, nil
	}
	if own := object.GetNamespace(); own != "" {
		namespace = own
	}
	return client.Namespace(namespace), nil
}

// Mapping returns the resource of a kind. It also finds a kind that is newer than the last
// discovery.
func (c *Cluster) Mapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := c.Mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		c.Mapper.Reset()
		mapping, err = c.Mapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// load reads the objects of files, and of the YAML files of folders in the order of their names.
func (c *Cluster) load(paths []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.root, path)
		}
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return nil, fmt.Errorf("list %s: %w", path, err)
			}
		}
		for _, file := range files {
			content, err := os.ReadFile(filepath.Clean(file))
			if err != nil {
				return nil, fmt.Errorf("load objects: %w", err)
			}
			found, err := decode(content)
			if err != nil {
				return nil, fmt.Errorf("load objects from %s: %w", file, err)
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

// decode reads the objects of a YAML file. Documents without content are left out.
func decode(content []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func describe(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s", object.GetKind(), object.GetName())
}
