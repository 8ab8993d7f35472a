// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// fakeServer is an API server in memory, and the transport to it. It keeps to
// the parts of the protocol that the engine builds on: server-side apply with
// real managedFields (the merging is the API server's own code), conflicts on
// resourceVersion and UID, finalizers, selectors, and watches that begin with
// what exists. No network is involved, so that a test in a synctest bubble has
// a clock of its own and can wait until nothing moves anymore.
type fakeServer struct {
	t testing.TB

	mu       sync.Mutex
	version  int
	kinds    map[schema.GroupVersionResource]fakeKind
	objects  map[fakeKey]*unstructured.Unstructured
	events   []fakeEvent
	news     chan struct{} // Closed and replaced whenever there are events to deliver.
	held     bool
	broken   chan struct{} // Closed and replaced to end all watches.
	oldest   int           // The version from which on events are known.
	requests []fakeRequest

	// fault, when set, decides which requests go wrong, and how. Watches and
	// discovery are not among them.
	fault func(fakeRequest) fakeFault
	// refuse, when set, is the server's admission: what it refuses, and why.
	refuse func(request fakeRequest, object *unstructured.Unstructured) error
	// validate, when set, refuses what a write would come to.
	validate func(object *unstructured.Unstructured) error
	// react, when set, stands for the controllers: it changes an object that was
	// just written, which is a write of its own.
	react func(object *unstructured.Unstructured) bool
}

type fakeKind struct {
	kind       schema.GroupVersionKind
	namespaced bool
}

type fakeKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

type fakeEvent struct {
	version       int
	key           fakeKey
	before, after *unstructured.Unstructured
}

// fakeRequest is one request, as far as tests look at it.
type fakeRequest struct {
	// verb is one of get, list, watch, create, update, apply, patch, delete and
	// deletecollection; "discover" for everything about the server itself.
	verb  string
	key   fakeKey
	query url.Values
	body  []byte

	accept string
}

// String is the request in a test's own words: "apply deployments default/web".
func (r fakeRequest) String() string {
	name := r.key.name
	if r.key.namespace != "" {
		name = r.key.namespace + "/" + name
	}
	return strings.TrimSuffix(strings.TrimSpace(r.verb+" "+r.key.resource.Resource+" "+name), "/")
}

// fakeFault is how a request goes wrong.
type fakeFault int

const (
	faultNone fakeFault = iota
	// faultBefore: it is answered with a 500 and has no effect.
	faultBefore
	// faultAfter: it is answered with a 500 and takes effect.
	faultAfter
	// faultLost: it takes effect, and the answer never arrives.
	faultLost
	// faultConflict: it is answered with a 409 and has no effect.
	faultConflict
	// faultThrottled: it is answered with a 429 and has no effect.
	faultThrottled
)

// fakeKinds are what the server serves from the beginning.
var fakeKinds = map[schema.GroupVersionResource]fakeKind{
	{Version: "v1", Resource: "configmaps"}:                                                             {schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, true},
	{Version: "v1", Resource: "namespaces"}:                                                             {schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, false},
	{Version: "v1", Resource: "pods"}:                                                                   {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, true},
	{Version: "v1", Resource: "secrets"}:                                                                {schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, true},
	{Version: "v1", Resource: "services"}:                                                               {schema.GroupVersionKind{Version: "v1", Kind: "Service"}, true},
	{Group: "apps", Version: "v1", Resource: "deployments"}:                                             {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, true},
	{Group: "batch", Version: "v1", Resource: "jobs"}:                                                   {schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, true},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}:               {schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, false},
	{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:                           {schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, false},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:                       {schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, false},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}:                            {schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, true},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: {schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, false},
}

func newFakeServer(t testing.TB) *fakeServer {
	t.Helper()
	s := &fakeServer{
		t:       t,
		version: 1000,
		kinds:   map[schema.GroupVersionResource]fakeKind{},
		objects: map[fakeKey]*unstructured.Unstructured{},
		news:    make(chan struct{}),
		broken:  make(chan struct{}),
	}
	for resource, kind := range fakeKinds {
		s.kinds[resource] = kind
	}
	return s
}

// config is how an engine reaches the server.
func (s *fakeServer) config() Config {
	return Config{
		RESTConfig: &rest.Config{Host: "http://fake.invalid", QPS: -1},
		HTTPClient: &http.Client{Transport: s},
	}
}

// RoundTrip implements http.RoundTripper.
func (s *fakeServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	parsed, err := s.parse(request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests = append(s.requests, parsed)
	fault := faultNone
	if s.fault != nil && parsed.verb != "watch" && parsed.verb != "discover" {
		fault = s.fault(parsed)
	}
	s.mu.Unlock()
	switch fault {
	case faultBefore:
		return s.answer(request, nil, apierrors.NewInternalError(errors.New("injected before the effect"))), nil
	case faultConflict:
		return s.answer(request, nil, apierrors.NewConflict(parsed.key.resource.GroupResource(), parsed.key.name, errors.New("injected"))), nil
	case faultThrottled:
		return s.answer(request, nil, apierrors.NewTooManyRequestsError("injected")), nil
	}
	if parsed.verb == "watch" {
		return s.watch(request, parsed)
	}
	result, err := s.serve(parsed)
	switch fault {
	case faultAfter:
		return s.answer(request, nil, apierrors.NewInternalError(errors.New("injected after the effect"))), nil
	case faultLost:
		return nil, io.ErrUnexpectedEOF
	}
	return s.answer(request, result, err), nil
}

func (s *fakeServer) parse(request *http.Request) (fakeRequest, error) {
	parsed := fakeRequest{
		verb: "discover", query: request.URL.Query(),
		accept: request.Header.Get("Accept"),
	}
	if request.Body != nil {
		var err error
		if parsed.body, err = io.ReadAll(request.Body); err != nil {
			return parsed, err
		}
		_ = request.Body.Close()
		if parsed.body, err = asJSON(request.Header.Get("Content-Type"), parsed.body); err != nil {
			return parsed, err
		}
	}
	parsed.key.name = request.URL.Path
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parsed.key.resource.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parsed.key.resource.Group, parsed.key.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return parsed, nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parsed.key.namespace, parts = parts[1], parts[2:]
	}
	parsed.key.resource.Resource, parsed.key.name = parts[0], strings.Join(parts[1:], "/")
	parsed.verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "apply", http.MethodDelete: "delete",
	}[request.Method]
	switch {
	case parsed.verb == "apply" && request.Header.Get("Content-Type") != string(types.ApplyPatchType):
		parsed.verb = "patch"
	case parsed.verb == "get" && parsed.query.Get("watch") == "true":
		parsed.verb = "watch"
	case parsed.verb == "get" && parsed.key.name == "":
		parsed.verb = "list"
	case parsed.verb == "delete" && parsed.key.name == "":
		parsed.verb = "deletecollection"
	}
	return parsed, nil
}

// asJSON turns what typed clients send into JSON.
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

// answer makes a response of an object or an error.
func (s *fakeServer) answer(request *http.Request, object any, err error) *http.Response {
	code := http.StatusOK
	header := http.Header{"Content-Type": {"application/json"}}
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			// As the API server does with what it has no reason for.
			status = &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
			}}
		}
		answered := status.Status()
		answered.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code = answered, int(answered.Code)
	}
	body, err := json.Marshal(object)
	if err != nil {
		s.t.Errorf("fake server: %v", err)
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}
}

// serve answers everything but watches.
func (s *fakeServer) serve(request fakeRequest) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.verb == "discover" {
		if s.refuse != nil {
			if err := s.refuse(request, nil); err != nil {
				return nil, err
			}
		}
		return s.discover(request.key.name)
	}
	kind, ok := s.kinds[request.key.resource]
	if !ok {
		return nil, apierrors.NewNotFound(request.key.resource.GroupResource(), "")
	}
	if request.verb == "get" && strings.HasSuffix(request.key.name, "/log") {
		return "a line of a log", nil
	}
	live := s.objects[request.key]
	if live == nil && slices.Contains([]string{"get", "update", "patch", "delete"}, request.verb) {
		return nil, apierrors.NewNotFound(request.key.resource.GroupResource(), request.key.name)
	}
	switch request.verb {
	case "get":
		return represent(live, request), nil
	case "list":
		if s.refuse != nil {
			if err := s.refuse(request, nil); err != nil {
				return nil, err
			}
		}
		return s.list(request, kind), nil
	case "delete":
		var options metav1.DeleteOptions
		if err := json.Unmarshal(request.body, &options); len(request.body) > 0 && err != nil {
			return nil, err
		}
		return s.delete(request.key, live, options)
	case "deletecollection":
		for key, object := range s.objects {
			if request.selects(key, object) {
				if _, err := s.delete(key, object, metav1.DeleteOptions{}); err != nil {
					return nil, err
				}
			}
		}
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	default:
		return s.change(request, kind, live)
	}
}

// change serves create, update and apply.
func (s *fakeServer) change(request fakeRequest, kind fakeKind, live *unstructured.Unstructured) (any, error) {
	object, err := decode(request, live)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object.SetGroupVersionKind(kind.kind)
	object.SetNamespace(request.key.namespace)
	key, resource := request.key, request.key.resource.GroupResource()
	key.name = object.GetName()
	if request.verb == "create" {
		live = s.objects[key]
	}
	switch version, uid := object.GetResourceVersion(), object.GetUID(); {
	case request.verb == "create" && live != nil:
		return nil, apierrors.NewAlreadyExists(resource, key.name)
	case uid != "" && live == nil:
		return nil, apierrors.NewConflict(resource, key.name, errors.New("the object has a UID, and no existing object was found"))
	case uid != "" && uid != live.GetUID():
		return nil, apierrors.NewInvalid(kind.kind.GroupKind(), key.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
		})
	case live != nil && version != "" && version != live.GetResourceVersion():
		return nil, apierrors.NewConflict(resource, key.name, errors.New("the object has been modified"))
	}
	if s.refuse != nil {
		if err := s.refuse(request, object); err != nil {
			return nil, err
		}
	}
	if size := len(request.body); key.resource == secretResource && size > corev1.MaxSecretSize {
		return nil, apierrors.NewInvalid(kind.kind.GroupKind(), key.name, field.ErrorList{
			field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize),
		})
	}
	dryRun := request.query.Has("dryRun")
	if dryRun && request.verb != "apply" {
		return object.Object, strictly(object)
	}
	var merged runtime.Object
	fieldManager := s.fieldManager(kind.kind, "")
	manager := request.query.Get("fieldManager")
	before := live
	if before == nil {
		before = &unstructured.Unstructured{}
		before.SetGroupVersionKind(kind.kind)
	}
	if request.verb == "apply" {
		merged, err = fieldManager.Apply(before.DeepCopy(), object, manager, request.query.Get("force") == "true")
	} else {
		merged, err = fieldManager.Update(before.DeepCopy(), object, cmp.Or(manager, "unknown"))
	}
	if err != nil {
		return nil, err
	}
	if s.validate != nil {
		if err := s.validate(merged.(*unstructured.Unstructured)); err != nil {
			return nil, err
		}
	}
	if dryRun {
		return represent(merged.(*unstructured.Unstructured), request), nil
	}
	return represent(s.store(key, live, merged.(*unstructured.Unstructured)), request), nil
}

// strictly refuses fields that a built-in kind does not have.
func strictly(object *unstructured.Unstructured) error {
	into, err := client.New(object.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // A kind of its own has no schema here.
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// decode gives the object that a request carries, or makes of what is there.
func decode(request fakeRequest, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object, body := &unstructured.Unstructured{}, request.body
	if request.verb == "patch" {
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, err
		}
		whole, err := json.Marshal(live.Object)
		if err != nil {
			return nil, err
		}
		if body, err = patch.Apply(whole); err != nil {
			return nil, err
		}
	}
	return object, utiljson.Unmarshal(body, &object.Object) // It keeps integers apart from floats.
}

// store stores what a write came to, and returns what the server answers.
func (s *fakeServer) store(key fakeKey, live, object *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
		object.SetCreationTimestamp(metav1.Now())
		if object.Object["spec"] != nil {
			object.SetGeneration(1)
		}
	} else {
		object.SetUID(live.GetUID())
		object.SetCreationTimestamp(live.GetCreationTimestamp())
		object.SetGeneration(live.GetGeneration())
		object.SetDeletionTimestamp(live.GetDeletionTimestamp())
		object.SetResourceVersion(live.GetResourceVersion())
		if sameButTimes(live, object) {
			return live
		}
		if !equality.Semantic.DeepEqual(live.Object["spec"], object.Object["spec"]) {
			object.SetGeneration(live.GetGeneration() + 1)
		}
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		s.happened(key, live, nil)
		return object
	}
	s.happened(key, live, object)
	answered := object
	if s.react != nil {
		changed := object.DeepCopy()
		if s.react(changed) {
			s.happened(key, object, changed)
		}
	}
	return answered
}

// sameButTimes compares as the API server does before it writes: the times in
// managedFields alone are no change.
func sameButTimes(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, object := range []*unstructured.Unstructured{a, b} {
		managed := object.GetManagedFields()
		for i := range managed {
			managed[i].Time = nil
		}
		object.SetManagedFields(managed)
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

func (s *fakeServer) delete(key fakeKey, live *unstructured.Unstructured, options metav1.DeleteOptions) (any, error) {
	if conditions := options.Preconditions; conditions != nil && conditions.UID != nil && *conditions.UID != live.GetUID() {
		return nil, apierrors.NewConflict(key.resource.GroupResource(), key.name, errors.New("the UID in the precondition is not the object's"))
	}
	if len(live.GetFinalizers()) == 0 {
		s.happened(key, live, nil)
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	if live.GetDeletionTimestamp() == nil {
		going, now := live.DeepCopy(), metav1.Now()
		going.SetDeletionTimestamp(&now)
		s.happened(key, live, going)
	}
	return s.objects[key], nil
}

// happened makes a change real: it counts the version, and tells the watches.
func (s *fakeServer) happened(key fakeKey, before, after *unstructured.Unstructured) {
	s.version++
	if after == nil {
		delete(s.objects, key)
	} else {
		after.SetResourceVersion(strconv.Itoa(s.version))
		s.objects[key] = after
	}
	s.events = append(s.events, fakeEvent{version: s.version, key: key, before: before, after: after})
	s.wake()
}

func (s *fakeServer) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// selects reports whether a list, a watch or a deletion of many means the object.
func (r fakeRequest) selects(key fakeKey, object *unstructured.Unstructured) bool {
	if object == nil || key.resource != r.key.resource || r.key.namespace != "" && key.namespace != r.key.namespace {
		return false
	}
	byLabel, err := labels.Parse(r.query.Get("labelSelector"))
	if err != nil || !byLabel.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	byField, err := fields.ParseSelector(r.query.Get("fieldSelector"))
	return err == nil && byField.Matches(fields.Set{metav1.ObjectNameField: key.name})
}

func (r fakeRequest) metadataOnly() bool {
	return strings.Contains(r.accept, "as=PartialObjectMetadata")
}

// represent gives the object in the form that the request asks for.
func represent(object *unstructured.Unstructured, request fakeRequest) map[string]any {
	if !request.metadataOnly() {
		return object.Object
	}
	return map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"],
	}
}

func (s *fakeServer) list(request fakeRequest, kind fakeKind) any {
	items := []any{}
	for key, object := range s.objects {
		if request.selects(key, object) {
			items = append(items, represent(object, request))
		}
	}
	list := map[string]any{
		"apiVersion": kind.kind.GroupVersion().String(), "kind": kind.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}
	if request.metadataOnly() {
		list["apiVersion"], list["kind"] = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	return list
}

// watch streams events until the client has enough.
func (s *fakeServer) watch(request *http.Request, parsed fakeRequest) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, ok := s.kinds[parsed.key.resource]
	if !ok {
		return s.answer(request, nil, apierrors.NewNotFound(parsed.key.resource.GroupResource(), "")), nil
	}
	if s.refuse != nil {
		if err := s.refuse(parsed, nil); err != nil {
			return s.answer(request, nil, err), nil
		}
	}
	reader, writer := io.Pipe()
	stream := &fakeWatch{server: s, request: parsed, kind: kind, encoder: json.NewEncoder(writer), broken: s.broken}
	stream.version, _ = strconv.Atoi(parsed.query.Get("resourceVersion"))
	var initial []metav1.WatchEvent
	switch {
	case parsed.query.Get("sendInitialEvents") == "true":
		initial, stream.version = stream.initial(), s.version
	case stream.version < s.oldest:
		return s.answer(request, nil, apierrors.NewResourceExpired("too old")), nil
	}
	ctx := request.Context()
	context.AfterFunc(ctx, func() { _ = writer.CloseWithError(ctx.Err()) })
	go stream.run(ctx, writer, initial)
	response := s.answer(request, nil, nil)
	response.Body, response.ContentLength = reader, -1
	return response, nil
}

// fakeWatch is one watch in progress.
type fakeWatch struct {
	server  *fakeServer
	request fakeRequest
	kind    fakeKind
	encoder *json.Encoder
	version int
	broken  <-chan struct{}
}

func (w *fakeWatch) run(ctx context.Context, writer io.Closer, events []metav1.WatchEvent) {
	defer writer.Close()
	for {
		for _, event := range events {
			if err := w.encoder.Encode(event); err != nil {
				return
			}
		}
		var news <-chan struct{}
		events, news = w.next()
		if len(events) > 0 {
			continue
		}
		select {
		case <-news:
		case <-w.broken:
			return
		case <-ctx.Done():
			return
		}
	}
}

// initial are the events that stand for what exists, and the bookmark that ends
// them.
func (w *fakeWatch) initial() []metav1.WatchEvent {
	var events []metav1.WatchEvent
	for key, object := range w.server.objects {
		if w.request.selects(key, object) {
			events = append(events, w.event(watch.Added, object, 0))
		}
	}
	bookmark := &unstructured.Unstructured{Object: map[string]any{}}
	bookmark.SetGroupVersionKind(w.kind.kind)
	bookmark.SetResourceVersion(strconv.Itoa(w.server.version))
	bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(events, w.event(watch.Bookmark, bookmark, 0))
}

// next are the events since the last ones, as the selectors see them, and the
// channel that tells of more.
func (w *fakeWatch) next() ([]metav1.WatchEvent, <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if w.server.held {
		return nil, w.server.news
	}
	var events []metav1.WatchEvent
	for _, event := range w.server.events {
		if event.version <= w.version {
			continue
		}
		was, is := w.request.selects(event.key, event.before), w.request.selects(event.key, event.after)
		switch {
		case was && is:
			events = append(events, w.event(watch.Modified, event.after, 0))
		case is:
			events = append(events, w.event(watch.Added, event.after, 0))
		case was:
			events = append(events, w.event(watch.Deleted, event.before, event.version))
		}
		w.version = event.version
	}
	return events, w.server.news
}

func (w *fakeWatch) event(kind watch.EventType, object *unstructured.Unstructured, version int) metav1.WatchEvent {
	if version != 0 {
		object = object.DeepCopy()
		object.SetResourceVersion(strconv.Itoa(version))
	}
	raw, err := json.Marshal(represent(object, w.request))
	if err != nil {
		w.server.t.Errorf("fake server: %v", err)
	}
	return metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
}

// discover answers what the server serves.
func (s *fakeServer) discover(where string) (any, error) {
	switch where {
	case "/version":
		return map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, nil
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case "/apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
		for resource := range s.kinds {
			known := slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == resource.Group })
			if resource.Group == "" || known {
				continue
			}
			version := metav1.GroupVersionForDiscovery{GroupVersion: resource.GroupVersion().String(), Version: resource.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: resource.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
		return groups, nil
	}
	groupVersion := strings.TrimPrefix(strings.TrimPrefix(where, "/apis/"), "/api/")
	resources := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion}
	for resource, kind := range s.kinds {
		if resource.GroupVersion().String() == groupVersion {
			resources.APIResources = append(resources.APIResources, metav1.APIResource{
				Name: resource.Resource, Kind: kind.kind.Kind, Namespaced: kind.namespaced,
				Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if len(resources.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, where)
	}
	return resources, nil
}

// client knows the built-in kinds; the global scheme has others besides.
var client = func() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	return known
}()

// builtin holds the schemas of the built-in kinds; parsing them takes a while.
var builtin = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(client) })

func (s *fakeServer) fieldManager(kind schema.GroupVersionKind, subresource string) *managedfields.FieldManager {
	converter := managedfields.NewDeducedTypeConverter()
	if client.Recognizes(kind) {
		converter = builtin()
	}
	manager, err := managedfields.NewDefaultCRDFieldManager(converter, untyped{}, untyped{}, untyped{kind}, kind, kind.GroupVersion(), subresource, nil)
	if err != nil {
		s.t.Fatalf("fake server: %v", err)
	}
	return manager
}

// untyped lets the field manager work on unstructured objects of one version.
type untyped struct{ kind schema.GroupVersionKind }

func (untyped) Convert(_, _, _ any) error { return errors.New("unstructured objects have one version") }

func (untyped) ConvertToVersion(object runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return object, nil
}

func (untyped) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (untyped) Default(runtime.Object) {}

func (u untyped) New(schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(u.kind)
	return object, nil
}

// The rest is what tests do to the server, and ask it.

// serveKind adds a kind to the server, as a new CRD does.
func (s *fakeServer) serveKind(resource schema.GroupVersionResource, kind string, namespaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[resource] = fakeKind{kind: resource.GroupVersion().WithKind(kind), namespaced: namespaced}
}

// resourceOf finds a kind's resource.
func (s *fakeServer) resourceOf(kind string) (schema.GroupVersionResource, fakeKind) {
	s.t.Helper()
	for resource, served := range s.kinds {
		if served.kind.Kind == kind {
			return resource, served
		}
	}
	s.t.Fatalf("the fake server has no kind %s", kind)
	return schema.GroupVersionResource{}, fakeKind{}
}

func (s *fakeServer) keyOf(kind, name string) fakeKey {
	s.t.Helper()
	resource, served := s.resourceOf(kind)
	key := fakeKey{resource: resource, name: path.Base(name)}
	if served.namespaced {
		key.namespace = path.Dir(name)
	}
	return key
}

// edit has somebody else change an object, or create it. The name is
// "namespace/name" for namespaced kinds.
func (s *fakeServer) edit(kind, name, manager string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return s.editPart(kind, name, manager, "", change)
}

func (s *fakeServer) editPart(kind, name, manager, subresource string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	groupVersionKind := s.kinds[key.resource].kind
	live := s.objects[key]
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(groupVersionKind)
	object := before.DeepCopy()
	object.SetNamespace(key.namespace)
	object.SetName(key.name)
	if live != nil {
		before, object = live.DeepCopy(), live.DeepCopy()
	}
	change(object)
	merged, err := s.fieldManager(groupVersionKind, subresource).Update(before, object, manager)
	if err != nil {
		s.t.Fatalf("edit %s %s: %v", kind, name, err)
	}
	return s.store(key, live, merged.(*unstructured.Unstructured)).DeepCopy()
}

// remove has somebody else delete an object.
func (s *fakeServer) remove(kind, name string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	live := s.objects[key]
	if live == nil {
		s.t.Fatalf("remove %s %s: there is none", kind, name)
	}
	s.happened(key, live, nil)
}

// object returns an object; nil when there is none.
func (s *fakeServer) object(kind, name string) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.objects[s.keyOf(kind, name)]; live != nil {
		return live.DeepCopy()
	}
	return nil
}

// names lists all objects, as "Kind namespace/name", but for release records.
func (s *fakeServer) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for key, object := range s.objects {
		if object.GetLabels()["owner"] != "helm" {
			names = append(names, object.GetKind()+" "+strings.TrimPrefix(key.namespace+"/"+key.name, "/"))
		}
	}
	slices.Sort(names)
	return names
}

// records lists the release records as "name.vN status".
func (s *fakeServer) records() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := []string{}
	for key, object := range s.objects {
		if object.GetLabels()["owner"] == "helm" {
			records = append(records, strings.TrimPrefix(key.name, "sh.helm.release.v1.")+" "+object.GetLabels()["status"])
		}
	}
	slices.Sort(records)
	return records
}

// taken returns the requests since the last call, without watches and
// discovery.
func (s *fakeServer) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := []string{}
	for _, request := range s.requests {
		if request.verb != "watch" && request.verb != "discover" {
			requests = append(requests, request.String())
		}
	}
	s.requests = slices.DeleteFunc(s.requests, func(request fakeRequest) bool { return request.verb != "discover" })
	return requests
}

// discoveries counts the requests since the last call about what the server
// serves.
func (s *fakeServer) discoveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.requests)
	s.requests = slices.DeleteFunc(s.requests, func(request fakeRequest) bool { return request.verb == "discover" })
	return before - len(s.requests)
}

// with changes how the server behaves while it runs.
func (s *fakeServer) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// hold keeps all watches from delivering events until it is let go.
func (s *fakeServer) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.wake()
}

// breakWatches ends all watches. With expired, they cannot begin where they
// ended: what happened since is forgotten.
func (s *fakeServer) breakWatches(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if expired {
		s.events, s.oldest = nil, s.version
	}
	close(s.broken)
	s.broken = make(chan struct{})
}

// failNth has the n-th request of an operation go wrong, counted from 1, and
// returns the number of requests seen so far.
func (s *fakeServer) failNth(n int, fault fakeFault) (seen func() int) {
	return s.fail(func(count int) fakeFault {
		if count == n {
			return fault
		}
		return faultNone
	})
}

// failFrom has the n-th request of an operation go wrong, and all that follow
// have no effect.
func (s *fakeServer) failFrom(n int, fault fakeFault) (seen func() int) {
	return s.fail(func(count int) fakeFault {
		switch {
		case count == n:
			return fault
		case count > n:
			return faultBefore
		default:
			return faultNone
		}
	})
}

func (s *fakeServer) fail(how func(count int) fakeFault) (seen func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	s.fault = func(fakeRequest) fakeFault {
		count++
		return how(count)
	}
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return count
	}
}
