// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is one request to the server.
type Request struct {
	// Verb is get, list, watch, create, update, apply, patch, delete or
	// deletecollection; "discover" for requests about the server itself, whose path is
	// the name in Key.
	Verb string
	Key  Key
	// Subresource is status or empty.
	Subresource string
	Query       url.Values
	// Body is JSON, also of a request in protobuf.
	Body []byte
	// User is the user whom the client impersonates; empty for none.
	User string

	accept string
	// merges says that a patch is a JSON merge patch.
	merges bool
}

// String is verb, resource and name: "apply deployments default/web".
func (r Request) String() string {
	name := r.Key.Name
	if r.Key.Namespace != "" {
		name = r.Key.Namespace + "/" + name
	}
	return strings.TrimSuffix(strings.TrimSpace(r.Verb+" "+strings.TrimSuffix(r.Key.Resource.Resource+"/"+r.Subresource, "/")+" "+name), "/")
}

// parse returns the meaning of a request.
func (s *Server) parse(request *http.Request) (Request, error) {
	parsed := Request{
		Verb: "discover", Query: request.URL.Query(),
		accept: request.Header.Get("Accept"), User: request.Header.Get(authenticationv1.ImpersonateUserHeader),
	}
	if request.Body != nil {
		var err error
		if parsed.Body, err = io.ReadAll(request.Body); err != nil {
			return parsed, err
		}
		_ = request.Body.Close()
		if parsed.Body, err = asJSON(request.Header.Get("Content-Type"), parsed.Body); err != nil {
			return parsed, err
		}
	}
	parsed.Key.Name = request.URL.Path
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parsed.Key.Resource.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parsed.Key.Resource.Group, parsed.Key.Resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return parsed, nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parsed.Key.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 3 && parts[2] == "status" {
		parsed.Subresource, parts = parts[2], parts[:2]
	}
	parsed.Key.Resource.Resource, parsed.Key.Name = parts[0], strings.Join(parts[1:], "/")
	parsed.merges = request.Header.Get("Content-Type") == string(types.MergePatchType)
	parsed.Verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "apply", http.MethodDelete: "delete",
	}[request.Method]
	switch {
	case parsed.Verb == "apply" && request.Header.Get("Content-Type") != string(types.ApplyPatchType):
		parsed.Verb = "patch"
	case parsed.Verb == "get" && parsed.Query.Get("watch") == "true":
		parsed.Verb = "watch"
	case parsed.Verb == "get" && parsed.Key.Name == "":
		parsed.Verb = "list"
	case parsed.Verb == "delete" && parsed.Key.Name == "":
		parsed.Verb = "deletecollection"
	}
	return parsed, nil
}

// asJSON converts the protobuf of typed clients into JSON.
func asJSON(contentType string, body []byte) ([]byte, error) {
	if len(body) == 0 || !strings.Contains(contentType, "protobuf") {
		return body, nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// selects reports whether a list, watch or deletion of a collection includes the object.
func (r Request) selects(key Key, object *unstructured.Unstructured) bool {
	if object == nil || key.Resource != r.Key.Resource || r.Key.Namespace != "" && key.Namespace != r.Key.Namespace {
		return false
	}
	byLabel, err := labels.Parse(r.Query.Get("labelSelector"))
	if err != nil || !byLabel.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	byField, err := fields.ParseSelector(r.Query.Get("fieldSelector"))
	return err == nil && byField.Matches(objectFields(object.Object))
}

// objectFields are the texts in an object by their path, such as involvedObject.uid. A real API
// server knows a few paths of each kind.
type objectFields map[string]any

// Get implements fields.Fields.
func (f objectFields) Get(path string) string {
	text, _, _ := unstructured.NestedString(f, strings.Split(path, ".")...)
	return text
}

// Has implements fields.Fields.
func (f objectFields) Has(path string) bool { return f.Get(path) != "" }

// metadataOnly reports whether the client wants PartialObjectMetadata.
func (r Request) metadataOnly() bool {
	return strings.Contains(r.accept, "as=PartialObjectMetadata")
}

// represent returns the object in the form that the request asks for.
func represent(object *unstructured.Unstructured, request Request) map[string]any {
	if !request.metadataOnly() {
		return object.Object
	}
	return map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"],
	}
}
