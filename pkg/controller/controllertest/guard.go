// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// GuardMutations fails t at its end for each object in objs that has changed. Pass
// objects from a lister or an informer's store: they are shared by all readers of
// the cache, so no reader may change them.
func GuardMutations(t testing.TB, objs ...runtime.Object) {
	t.Helper()
	before := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		before[i] = obj.DeepCopyObject()
	}
	t.Cleanup(func() {
		for i, obj := range objs {
			if diff := cmp.Diff(before[i], obj); diff != "" {
				t.Errorf("cached %T was changed (-before +after):\n%s", obj, diff)
			}
		}
	})
}
