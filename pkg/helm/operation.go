// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// operation is one action on one release. It implements Helm's kube.Interface,
// so that Helm's actions decide what happens in which order, and it decides
// what that costs: objects that are known not to have changed are not sent, and
// what can be known without asking is not asked.
type operation struct {
	engine   *Engine
	ctx      context.Context
	release  cache.ObjectName
	limits   limits
	logger   *slog.Logger
	store    *store
	cfg      *action.Configuration
	lookups  *lookups
	baseline Baseline
	// owner, when set, is made the controller of the objects.
	owner *metav1.OwnerReference
	// ownerID is the release's owner, and established says that the release was the
	// owner's before this operation: its objects carry its marks then.
	ownerID     Owner
	established bool
	// bounds say where the objects may lie.
	bounds bounds
	// hooks are the hooks that this operation has created.
	hooks map[ObjectReference]types.UID
	// parsed are the manifests that were parsed already.
	parsed map[string][]document
	// known are the objects of the release as the last operation left them.
	known map[ObjectReference]InventoryEntry
	// trusted says that the known objects have the content of the deployed
	// manifest. After an attempt that did not succeed they may not, and their
	// fingerprints do not tell: those stand for who owns which field.
	trusted bool
	// base, when set, are the known objects as their manifest has them, in place of
	// what Helm takes for the current manifest: attempts that failed have come after
	// it. Objects that those have sent count as changed.
	base kube.ResourceList
	// clientSide says that the release was last applied on the client's side. Its
	// objects are then taken over before they are applied.
	clientSide bool
	// ignore names fields that others may change.
	ignore []IgnoreRule
	left   []Drift // What an explanation found that nobody repairs.
	// touched says that objects that existed before were changed.
	touched bool
	// installing names the chart that is installed, from whose crds/ Helm creates
	// objects first; empty when it creates none.
	installing string

	// inventory collects the objects of the release as this operation leaves them.
	inventory []InventoryEntry
	// existence answers Helm's question whether an object exists; nil keeps Helm
	// from asking.
	existence resource.RESTClient
	// failure is the first error of a request about an object.
	failure error
}

var _ kube.Interface = (*operation)(nil)

// note keeps the first failure: Helm's actions reduce some errors to text.
func (o *operation) note(err error) error {
	if err != nil && o.failure == nil {
		o.failure, o.store.unfinished = err, true
	}
	return err
}

// IsReachable implements kube.Interface. The next request will tell.
func (o *operation) IsReachable() error { return nil }

// Build implements kube.Interface. Helm has what it is about to apply validated,
// and nothing else. The API server is not asked for that, since applying an object
// validates it strictly; but each object then has to be of a kind that is served.
// What a release has had is built without those of kinds that are gone, for the
// objects went with their kind: neither an upgrade nor an uninstall is to fail for
// their sake. An install has had nothing: what is not validated then are its crds/.
func (o *operation) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	manifest, err := io.ReadAll(reader)
	if err != nil {
		return nil, o.note(err)
	}
	build := o.former
	switch {
	case validate:
		build = o.build
	case o.installing != "":
		build = o.buildCRDs
	}
	list, err := build(string(manifest))
	return list, o.note(err)
}

// former builds what a release has had, without the objects of kinds that are gone
// and those that the release may not have: neither is touched.
func (o *operation) former(manifest string) (kube.ResourceList, error) {
	list, err := o.build(manifest)
	if isExcluded(err) {
		o.logger.Warn("Left out objects of the release that are not served, or that it may not have", slog.Any("error", shortened(err)))
		return list, nil
	}
	return list, err
}

// isExcluded reports whether a manifest was built without the objects that the error
// is about.
func isExcluded(err error) bool {
	var outside *OutOfScopeError
	return meta.IsNoMatchError(err) || errors.As(err, &outside)
}

// build parses a manifest. When it has objects of kinds that are not served, or that
// the release may not have, it returns the others beside the error.
func (o *operation) build(manifest string) (kube.ResourceList, error) {
	documents, err := o.documents(manifest)
	if err != nil {
		return nil, &RenderError{Chart: o.release.Name, Err: err}
	}
	var list kube.ResourceList
	var excluded error
	for _, document := range documents {
		for _, object := range document.objects {
			err := o.flatten(object.DeepCopy(), &list)
			if isExcluded(err) {
				excluded = cmp.Or(excluded, err)
				continue
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return list, excluded
}

// flatten appends an object, or what a List holds.
func (o *operation) flatten(object *unstructured.Unstructured, list *kube.ResourceList) error {
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return &RenderError{Chart: o.release.Name, Err: fmt.Errorf("object %q has no apiVersion or no kind", object.GetName())}
	}
	if object.IsList() {
		return object.EachListItem(func(item runtime.Object) error {
			child, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("item of %s: unexpected %T", object.GetKind(), item)
			}
			return o.flatten(child, list)
		})
	}
	mapping, err := o.engine.mapper.mapping(object.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(o.release.Namespace)
		}
		namespace = object.GetNamespace()
	}
	info := &resource.Info{
		Client: o.existence, Mapping: mapping, Namespace: namespace, Name: object.GetName(), Object: object,
	}
	if !o.bounds.allow(namespace) {
		return o.outOfScope(reference(info))
	}
	list.Append(info)
	return nil
}

// outOfScope is the error of an object that the release may not have.
func (o *operation) outOfScope(object ObjectReference) error {
	if o.bounds.scope == ScopeCluster {
		return &OutOfScopeError{Object: object, Namespaces: o.bounds.namespaces}
	}
	return &OutOfScopeError{Object: object, Namespaces: []string{o.release.Namespace}}
}

// Create implements kube.Interface. Helm calls it for the objects of a first
// install, for the files under crds/, and for hooks.
func (o *operation) Create(resources kube.ResourceList, _ ...kube.ClientCreateOption) (*kube.Result, error) {
	if err := o.watch(resources); err != nil {
		return &kube.Result{}, o.note(err)
	}
	result := &kube.Result{}
	for _, info := range resources {
		if err := o.create(info, result); err != nil {
			o.undo(result.Created, err)
			return result, o.note(err)
		}
	}
	return result, nil
}

// create makes one object that is expected to be absent.
func (o *operation) create(info *resource.Info, result *kube.Result) error {
	object, err := content(info)
	if err != nil {
		return err
	}
	if !o.owned(object) {
		// A file under crds/, which Helm leaves alone where it exists, or a hook.
		if isCRD(object) {
			return o.createOnly(info, object)
		}
		return o.createHook(info, object)
	}
	if err := o.ownObject(info); err != nil {
		return err
	}
	applied, created, err := o.ensure(info, object)
	if err != nil {
		return err
	}
	if created {
		result.Created = append(result.Created, info)
	} else {
		result.Updated = append(result.Updated, info)
	}
	o.record(info, applied)
	return nil
}

// undo takes back what was created before an object of somebody else was found
// in the way, so that a refused release leaves nothing behind.
func (o *operation) undo(created kube.ResourceList, cause error) {
	var conflict *OwnershipConflictError
	if !errors.As(cause, &conflict) {
		return
	}
	for _, info := range created {
		if err := o.remove(info, metav1.DeletePropagationBackground); err != nil {
			o.touched = true
			o.logger.Warn("Could not take back an object of a refused release",
				slog.String("object", reference(info).String()), slog.Any("error", err))
		}
	}
	o.inventory = nil
}

// Update implements kube.Interface: it applies what changed, leaves alone what
// did not, and deletes what the target no longer has.
func (o *operation) Update(originals, targets kube.ResourceList, _ ...kube.ClientUpdateOption) (*kube.Result, error) {
	result := &kube.Result{}
	if err := o.watch(targets); err != nil {
		return result, o.note(err)
	}
	for _, target := range targets {
		if err := o.update(originals.Get(target), target, result); err != nil {
			o.undo(result.Created, err)
			return result, o.note(err)
		}
	}
	for _, info := range originals.Difference(targets) {
		if err := o.remove(info, metav1.DeletePropagationBackground); err != nil {
			return result, o.note(err)
		}
		result.Deleted = append(result.Deleted, info)
	}
	return result, nil
}

func (o *operation) update(original, target *resource.Info, result *kube.Result) error {
	object, err := content(target)
	if err != nil {
		return err
	}
	if err := o.ownObject(target); err != nil {
		return err
	}
	if entry, ok := o.unchanged(original, target); ok {
		o.inventory = append(o.inventory, entry)
		return nil
	}
	if original == nil {
		return o.create(target, result)
	}
	applied, err := o.put(target, object)
	if err != nil {
		return err
	}
	result.Updated = append(result.Updated, target)
	o.record(target, applied)
	return nil
}

// unchanged reports whether the target is what is deployed already, and nobody
// has changed that since.
func (o *operation) unchanged(original, target *resource.Info) (InventoryEntry, bool) {
	entry, ok := o.known[reference(target)]
	if !ok || !o.trusted {
		return InventoryEntry{}, false
	}
	if o.base != nil {
		original = o.base.Get(target)
	}
	if original == nil || o.base != nil && o.engine.attempts.sent(o.release, entry.ObjectReference) {
		return InventoryEntry{}, false
	}
	got, ok := o.observed(target)
	if !ok || compare(entry, got) != "" {
		return InventoryEntry{}, false
	}
	was, err := content(original)
	if err != nil {
		return InventoryEntry{}, false
	}
	was = was.DeepCopy()
	o.claim(was)
	is, err := content(target)
	if err != nil || !equalContent(was, is) {
		return InventoryEntry{}, false
	}
	return entry, true
}

// Delete implements kube.Interface. Helm calls it for the objects of a release
// that is uninstalled, for hooks by their policy, and to clean up after a
// failure. Objects that belong to somebody else are left alone.
func (o *operation) Delete(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	var errs []error
	result := &kube.Result{}
	for _, info := range resources {
		remove := o.remove
		if isHook(info) {
			remove = o.removeHook
		}
		if err := remove(info, policy); err != nil {
			errs = append(errs, o.note(err))
			continue
		}
		result.Deleted = append(result.Deleted, info)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return result, nil
}

// Get implements kube.Interface. No action that the engine runs calls it.
func (o *operation) Get(kube.ResourceList, bool) (map[string][]runtime.Object, error) {
	return nil, errNotSupported
}

// BuildTable implements kube.Interface. No action that the engine runs calls it.
func (o *operation) BuildTable(io.Reader, bool) (kube.ResourceList, error) {
	return nil, errNotSupported
}

var errNotSupported = errors.New("not part of any operation of the engine")

// GetPodList implements kube.Interface: the pods of a hook whose logs the chart
// asks for.
func (o *operation) GetPodList(namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
	return o.engine.clientset.CoreV1().Pods(namespace).List(o.ctx, options)
}

// OutputContainerLogsForPodList implements kube.Interface.
func (o *operation) OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, writer func(namespace, pod, container string) io.Writer) error {
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			logs, err := o.engine.clientset.CoreV1().Pods(namespace).
				GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).Stream(o.ctx)
			if err != nil {
				return fmt.Errorf("logs of pod %s/%s: %w", namespace, pod.Name, err)
			}
			_, err = io.Copy(writer(namespace, pod.Name, container.Name), logs)
			if err := errors.Join(err, logs.Close()); err != nil {
				return fmt.Errorf("logs of pod %s/%s: %w", namespace, pod.Name, err)
			}
		}
	}
	return nil
}

// GetWaiter implements kube.Interface. The engine never waits for the health of
// a release: that is watched.
func (o *operation) GetWaiter(kube.WaitStrategy) (kube.Waiter, error) {
	return &hookWaiter{operation: o}, nil
}

// watch makes sure that the kinds of the resources are watched before they are
// written, so that no change to them goes unseen.
func (o *operation) watch(resources kube.ResourceList) error {
	mappings := make([]*meta.RESTMapping, 0, len(resources))
	for _, info := range resources {
		object, err := content(info)
		if err != nil {
			return err
		}
		if o.owned(object) {
			mappings = append(mappings, info.Mapping)
		}
	}
	if len(mappings) == 0 {
		return nil
	}
	return o.engine.watcher.need(o.ctx, o.release, mappings)
}

// observed returns what is known of the object; false when its kind or its
// namespace is not watched.
func (o *operation) observed(info *resource.Info) (*observed, bool) {
	view := o.engine.watcher.view(info.Mapping, info.Namespace)
	if view == nil {
		return nil, false
	}
	got, _ := view.get(info.Namespace, info.Name)
	return got, true
}

// made is the UID of an object as this operation, or else the last one, made it; empty
// when none did.
func (o *operation) made(object ObjectReference) types.UID {
	for _, entry := range o.inventory {
		if entry.ObjectReference == object {
			return entry.UID
		}
	}
	return o.known[object].UID
}

// record notes an object as the operation leaves it.
func (o *operation) record(info *resource.Info, applied metav1.Object) {
	o.inventory = append(o.inventory, InventoryEntry{
		ObjectReference: reference(info),
		UID:             applied.GetUID(),
		Digest:          fingerprint(managedFields(applied)),
	})
}

// owned reports whether the object is marked as part of the release; hooks and
// the files under crds/ are not.
func (o *operation) owned(object *unstructured.Unstructured) bool {
	annotations := object.GetAnnotations()
	return annotations[releaseNameAnnotation] == o.release.Name && annotations[releaseNamespaceAnnotation] == o.release.Namespace
}

// claimed reports whether the object has all the marks by which Helm knows what
// belongs to the release.
func (o *operation) claimed(object *unstructured.Unstructured) bool {
	return object.GetLabels()[managedByLabel] == managedByHelm && o.owned(object)
}

// claim marks the object as part of the release, as Helm's actions do.
func (o *operation) claim(object *unstructured.Unstructured) {
	objectLabels := maps.Clone(object.GetLabels())
	if objectLabels == nil {
		objectLabels = map[string]string{}
	}
	objectLabels[managedByLabel] = managedByHelm
	object.SetLabels(objectLabels)
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[releaseNameAnnotation] = o.release.Name
	annotations[releaseNamespaceAnnotation] = o.release.Namespace
	object.SetAnnotations(annotations)
}

func isHook(info *resource.Info) bool {
	object, err := content(info)
	return err == nil && object.GetAnnotations()[hookAnnotation] != ""
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == crdKind
}

func content(info *resource.Info) (*unstructured.Unstructured, error) {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: unexpected %T", reference(info), info.Object)
	}
	return object, nil
}

func reference(info *resource.Info) ObjectReference {
	apiVersion, kind := info.Mapping.GroupVersionKind.ToAPIVersionAndKind()
	return ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: info.Namespace, Name: info.Name}
}

// absent is the client that Helm's install and upgrade find in each resource.
// They use it to ask whether an object exists before they create it; it answers
// that none does, and creating finds out for sure.
var absent = newAbsentClient()

func newAbsentClient() resource.RESTClient {
	client, err := rest.NewRESTClient(&url.URL{Scheme: "http", Host: "absent.invalid"}, "", rest.ClientContentConfig{
		ContentType:  runtime.ContentTypeJSON,
		GroupVersion: corev1.SchemeGroupVersion,
		Negotiator:   runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}, nil, &http.Client{Transport: absentTransport{}, Timeout: time.Second})
	if err != nil {
		panic(fmt.Sprintf("client without a server: %v", err)) // Its arguments are constants.
	}
	return client
}

type absentTransport struct{}

// RoundTrip implements http.RoundTripper. It never opens a connection.
func (absentTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: request,
	}, nil
}
