// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/resource"
	kyaml "sigs.k8s.io/yaml"
)

// document is one document of a manifest with its objects: none, one, or several in JSON.
type document struct {
	text    []byte
	objects []*unstructured.Unstructured
}

// parseManifest splits a manifest into its documents and parses them. It checks the limits
// before it parses.
func parseManifest(manifest string) ([]document, error) {
	documents, err := splitManifest(manifest)
	if err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	if err := checkSize(documents); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	count := 0
	for i := range documents {
		document := &documents[i]
		if document.objects, err = parseDocument(document.text); err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if count += countObjects(document.objects); count > maxManifestObjects {
			return nil, fmt.Errorf("parse manifest: %w", errTooManyObjects)
		}
	}
	return documents, nil
}

// splitManifest returns the documents of a manifest without parsing them.
func splitManifest(manifest string) ([]document, error) {
	if len(manifest) > maxManifestBytes {
		return nil, fmt.Errorf("the manifest has %d bytes, more than the limit of %d: split the chart", len(manifest), maxManifestBytes)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var documents []document
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		// The reader leaves the separator before the first document.
		documents = append(documents, document{text: bytes.TrimPrefix(text, []byte("---\n"))})
	}
}

// parseDocument returns the objects of a document: one in YAML, or any number in a stream
// of JSON.
func parseDocument(text []byte) ([]*unstructured.Unstructured, error) {
	if !yaml.IsJSONBuffer(text) {
		content, err := kyaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		object, err := parseObject(content)
		if object == nil || err != nil {
			return nil, err
		}
		return []*unstructured.Unstructured{object}, nil
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var content runtime.RawExtension
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object, err := parseObject(content.Raw)
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}

// parseObject returns nil when the content is empty. It keeps integers, because a float
// loses digits of large ones.
func parseObject(content []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &object.Object); err != nil {
			return nil, err
		}
	}
	if len(object.Object) == 0 {
		return nil, nil
	}
	return object, nil
}

// documents returns the documents of a manifest. It parses each manifest only once, because
// Helm's actions build the same manifests several times. The result is shared and must not
// be changed.
func (o *operation) documents(manifest string) ([]document, error) {
	if documents, ok := o.parsed[manifest]; ok {
		return documents, nil
	}
	documents, err := parseManifest(manifest)
	if err != nil {
		return nil, err
	}
	if o.parsed == nil {
		o.parsed = map[string][]document{}
	}
	o.parsed[manifest] = documents
	return documents, nil
}

// manifestHash returns the HMAC-SHA256, in hex, of a release's manifest without the values
// of Secrets. The key is in the record. A hash without a key could reveal secrets, because
// charts put checksums of Secrets into annotations of pods.
func (o *operation) manifestHash(rls *releasev1.Release) string {
	if rls.Labels[SaltLabel] == "" {
		return "" // The next revision gets a key.
	}
	hash := hmac.New(sha256.New, []byte(rls.Labels[SaltLabel]))
	documents, _ := o.documents(rls.Manifest) // It was parsed without an error before.
	for _, document := range documents {
		hash.Write([]byte("---\n"))
		hash.Write(withoutSecrets(document))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// withoutSecrets returns the text of a document. For a document with Secrets, it returns
// its objects as JSON in which the Secrets' values are empty.
func withoutSecrets(d document) []byte {
	isSecret := func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind().GroupKind() == secretKind
	}
	if !slices.ContainsFunc(d.objects, func(object *unstructured.Unstructured) bool { return isSecret(object) || object.IsList() }) {
		return d.text
	}
	var written []byte
	for _, object := range d.objects {
		copied := object.DeepCopy()
		items := []any{copied.Object}
		if listed, ok := copied.Object["items"].([]any); ok && copied.IsList() {
			items = listed
		}
		for _, item := range items {
			fields, ok := item.(map[string]any)
			if !ok || !isSecret(&unstructured.Unstructured{Object: fields}) {
				continue
			}
			for _, field := range []string{"data", "stringData"} {
				values, _ := fields[field].(map[string]any)
				for key := range values {
					values[key] = ""
				}
			}
		}
		content, err := copied.MarshalJSON()
		if err != nil {
			continue // An object from JSON can be encoded.
		}
		written = append(written, content...)
	}
	return written
}

// owners returns the owner references for the objects of the release; nil for none.
func (o *operation) owners() *ownerReferences {
	if o.owner == nil {
		return nil
	}
	return &ownerReferences{owner: *o.owner, namespace: o.release.Namespace, namespaced: o.engine.mapper.namespaced}
}

// ownManifest adds the owner to the manifest of a revision before it is recorded. With
// renewed, the owner replaces earlier ones.
func (o *operation) ownManifest(next *releasev1.Release, renewed bool) error {
	owners := o.owners()
	if owners == nil {
		return nil
	}
	owners.renewed = renewed
	documents, err := o.documents(next.Manifest)
	if err != nil {
		return err
	}
	manifest, err := owners.write(next.Manifest, documents)
	if err != nil {
		return err
	}
	next.Manifest = manifest
	return nil
}

// ownObject adds the owner to an object, as in the manifest.
func (o *operation) ownObject(info *resource.Info) error {
	object, err := content(info)
	if err != nil {
		return err
	}
	o.markOwner(object)
	owners := o.owners()
	if owners == nil {
		return nil
	}
	return owners.own(object)
}
