// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Claims assigns values of one type, such as hosts, to the objects of one kind. All fields without
// a default are required.
type Claims[T controller.Object] struct {
	// Name is the name of the index, such as "host". It is unique among the indexes of the
	// kind.
	Name string
	// Requested returns the value that the spec of an object requests, or an empty text.
	Requested func(T) string
	// Held returns the value that an object holds according to its status, or an empty text.
	Held func(T) string
	// Reserved returns the namespace whose objects alone may have a value, or an empty text for a
	// value that any object may have. Optional.
	Reserved func(value string) (namespace string)
	// Shown returns the requested value in the form for messages. The default is Requested.
	Shown func(T) string
}

// ReservedHosts returns a [Claims.Reserved] for hosts. reserved maps hosts to the namespaces that
// alone may have them and their subdomains.
func ReservedHosts(reserved map[string]string) func(host string) string {
	return func(host string) string {
		for found := true; found; _, host, found = strings.Cut(host, ".") {
			if namespace := reserved[host]; namespace != "" {
				return namespace
			}
		}
		return ""
	}
}

// Loop is the part of kind.Loop that Claims need.
type Loop[T controller.Object] interface {
	Queue() *controller.Controller
	Await(synced ...controller.NamedSync)
	Cached() controller.Scoped[T]
	Newest(cached T) T
}

// Watch indexes the objects of the informers by their claims. When a claim changes, Watch queues
// the other claimant that gains or loses the value. Call it before the informers run.
func (c Claims[T]) Watch(loop Loop[T], informers map[string]cache.SharedIndexInformer) error {
	affected := func(object T) []cache.ObjectName { return c.affected(loop, object) }
	var errs []error
	for _, informer := range informers {
		errs = append(errs, c.AddIndex(informer))
		synced, err := controller.AddHandler("claims of "+c.Name, informer, controller.MapHandler(loop.Queue(), affected, c.Changed))
		loop.Await(synced)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// AddIndex indexes the objects of an informer by their claims. Call it before the informer runs.
// [Claims.Watch] includes it.
func (c Claims[T]) AddIndex(informer cache.SharedIndexInformer) error {
	return informer.AddIndexers(cache.Indexers{c.Name: func(object any) ([]string, error) {
		if typed, ok := object.(T); ok {
			return c.Of(typed), nil
		}
		return nil, nil
	}})
}

// affected returns the objects that may gain or lose a value when this version of an object appears
// or disappears: the first of the other claimants, if the object precedes it. The remaining
// claimants are refused before and after. Their next pass finds the new holder, so that many
// claimants of a value do not queue each other.
func (c Claims[T]) affected(loop Loop[T], object T) []cache.ObjectName {
	var (
		keys []cache.ObjectName
		none T
	)
	for _, value := range c.Of(object) {
		if first := c.first(loop, object, value); first != none && c.precedes(object, first, value) {
			keys = append(keys, cache.MetaObjectToName(first))
		}
	}
	return keys
}

// Refusal says why an object cannot have the requested value. It is empty if the object can have
// the value. field and kind name the field of the request, and the kind of the objects.
func (c Claims[T]) Refusal(loop Loop[T], object T, field, kind string) string {
	var none T
	value := c.Requested(object)
	if value == "" {
		return ""
	}
	if c.isForbidden(object, value) {
		return fmt.Sprintf("%s: %s is reserved for another namespace: choose another %s", field, c.shown(object), c.Name)
	}
	if first := c.first(loop, object, value); first != none && c.precedes(first, object, value) {
		return c.taken(object, first, field, kind)
	}
	return ""
}

// first returns the first claimant of a value, without the object itself, or nil.
func (c Claims[T]) first(loop Loop[T], object T, value string) T {
	var found, none T
	for _, other := range c.Others(loop, object, value) {
		if found == none || c.precedes(other, found, value) {
			found = other
		}
	}
	return found
}

// taken returns the message for an object whose value belongs to a rival. It does not name an
// object of another namespace, which may belong to another tenant.
func (c Claims[T]) taken(object, rival T, field, kind string) string {
	owner := fmt.Sprintf("%s %q", kind, rival.GetName())
	if rival.GetNamespace() != object.GetNamespace() {
		owner = "an object of kind " + kind + " in another namespace"
	}
	return fmt.Sprintf("%s: %s belongs to %s: choose another %s", field, c.shown(object), owner, c.Name)
}

func (c Claims[T]) shown(object T) string {
	if c.Shown != nil {
		return c.Shown(object)
	}
	return c.Requested(object)
}

// isForbidden reports whether a value is reserved for a namespace other than the namespace of the object.
func (c Claims[T]) isForbidden(object T, value string) bool {
	if c.Reserved == nil {
		return false
	}
	namespace := c.Reserved(value)
	return namespace != "" && namespace != object.GetNamespace()
}

// precedes reports whether other has precedence over object for a value. Ages are full seconds, so
// ties are broken by UID.
func (c Claims[T]) precedes(other, object T, value string) bool {
	if holds := c.Held(other) == value; holds != (c.Held(object) == value) {
		return holds
	}
	age, olderAge := object.GetCreationTimestamp(), other.GetCreationTimestamp()
	return cmp.Or(olderAge.Compare(age.Time), cmp.Compare(other.GetUID(), object.GetUID())) < 0
}

// Others returns the other objects that request or hold a value, in the newest versions.
func (c Claims[T]) Others(loop Loop[T], object T, value string) []T {
	var (
		found []T
		none  T
	)
	for namespace := range loop.Cached() {
		for _, cached := range loop.Cached().ByIndex(namespace, c.Name, value) {
			newest := loop.Newest(cached)
			if newest != none && newest.GetUID() != object.GetUID() && slices.Contains(c.Of(newest), value) {
				found = append(found, newest)
			}
		}
	}
	return found
}

// Of returns the values that an object requests or holds, without values that are reserved for
// other namespaces.
func (c Claims[T]) Of(object T) []string {
	values := []string{c.Requested(object), c.Held(object)}
	return slices.Compact(slices.DeleteFunc(values, func(value string) bool { return value == "" || c.isForbidden(object, value) }))
}

// Changed returns the reason to queue the other claimants of a changed object. It returns 0 if the
// claims are the same.
func (c Claims[T]) Changed(before, after T) controller.Reason {
	var none T
	if before != none && after != none && c.Requested(before) == c.Requested(after) && c.Held(before) == c.Held(after) {
		return 0
	}
	return controller.SpecChange
}
