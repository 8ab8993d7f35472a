// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// TestOrphaned: only children without any owner reference are evidence.
func TestOrphaned(t *testing.T) {
	strip := func(c *corev1.ConfigMap) { c.OwnerReferences = nil }
	tests := map[string]struct {
		desired []Desired
		change  func(f *family)
		want    bool
	}{
		"nothing happened":      {[]Desired{configMap("one")}, func(*family) {}, false},
		"the only child":        {[]Desired{configMap("one")}, func(f *family) { f.change(strip) }, true},
		"another child is left": {[]Desired{configMap("one"), deployment("nginx")}, func(f *family) { f.change(strip) }, false},
		"another object of the name": {[]Desired{configMap("one")}, func(f *family) {
			f.change(strip)
			f.status.Applied[0].UID = "another"
		}, false},
		"another owner": {[]Desired{configMap("one")}, func(f *family) {
			f.change(func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID, c.OwnerReferences[0].Name = "other", "other" })
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, test.desired...)
				f.confirmErr = errors.New("the owner is being deleted")
				test.change(f)
				f.forget()

				got := f.set.Orphaned(f.owner, f.status)

				expect.Equal(t, "orphaned", test.want, got)
				expect.Equal(t, "requests", []string(nil), f.Take())
			})
		})
	}
}

// TestLetGo: the owner is removed from children that still have it, after the garbage collector.
func TestLetGo(t *testing.T) {
	tests := map[string]struct {
		finalizers []string
		requests   []string
	}{
		"before the garbage collector": {[]string{metav1.FinalizerOrphanDependents}, nil},
		"after the garbage collector":  {nil, []string{"get configmaps/web", "patch configmaps/web"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				f.confirmErr = errors.New("the owner is being deleted")
				f.owner.Finalizers = test.finalizers

				err := f.set.LetGo(t.Context(), f.owner)

				expect.NoError(t, err)
				expect.Equal(t, "requests", test.requests, f.Take())
				expect.Equal(t, "controlled", len(test.requests) == 0, metav1.IsControlledBy(f.configMap(), f.owner))
			})
		})
	}
}

// TestOrphanedChildIsContinued: an owner of the same name takes the children of an orphaned one, which
// its labels name. Objects of other owners stay.
func TestOrphanedChildIsContinued(t *testing.T) {
	tests := map[string]struct {
		change   func(*corev1.ConfigMap)
		conflict bool
	}{
		"an orphaned child":                     {func(*corev1.ConfigMap) {}, false},
		"an orphaned child that a user changed": {func(c *corev1.ConfigMap) { c.Data["key"] = "theirs" }, false},
		"a child of an owner with another name": {func(c *corev1.ConfigMap) { c.Labels["app"] = "other" }, true},
		"a copy by a backup tool":               {func(c *corev1.ConfigMap) { c.ManagedFields = []metav1.ManagedFieldsEntry{{}} }, false},
		"an object without fields of an operator": {func(c *corev1.ConfigMap) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{{}}
			delete(c.Labels, ManagedByLabel)
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				f.confirmErr = errors.New("the owner is being deleted")
				f.change(func(c *corev1.ConfigMap) {
					c.OwnerReferences = nil
					test.change(c)
				})
				before := f.configMap().UID
				f.Stop()
				f.owner.UID, f.status, f.confirmErr = "successor", childv1alpha1.ChildrenStatus{}, nil

				f.start()

				conflict := (*OwnershipConflictError)(nil)
				expect.Equal(t, "conflict", test.conflict, errors.As(f.err, &conflict))
				if test.conflict {
					expect.Equal(t, "terminal", true, controller.IsTerminal(f.err))
					return
				}
				expect.NoError(t, f.err)
				got := f.configMap()
				expect.Equal(t, "UID", before, got.UID)
				expect.Equal(t, "data", map[string]string{"key": "one"}, got.Data)
				expect.Equal(t, "controlled by the successor", true, metav1.IsControlledBy(got, f.owner))
			})
		})
	}
}
