// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// GuardMutations fails t at its end for each of objs that has been changed by
// then. Give it objects that a lister or an informer's store returned: whoever
// changes one changes it for every reader of the cache.
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
