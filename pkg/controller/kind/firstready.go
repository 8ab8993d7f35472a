// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// firstReady finds the status write that makes an object Ready for the first time. A status
// without Ready is the proof that an object was never Ready. From its first status on, this
// process remembers an object until it is Ready.
//
// An object that got its first status from an earlier process, and is not Ready yet, is not
// measured, because it may have been Ready before. The zero value is ready to use.
type firstReady struct{ pending controller.Memory[types.UID] }

// wrote reports whether a status write made the object Ready for the first time. before and
// after are the conditions before and after the write.
func (f *firstReady) wrote(object metav1.Object, before, after []metav1.Condition) bool {
	was, is := meta.FindStatusCondition(before, apimeta.ConditionReady), meta.FindStatusCondition(after, apimeta.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status {
		return false
	}
	key := cache.MetaObjectToName(object)
	uid, ok := f.pending.Get(key)
	if is.Status == metav1.ConditionTrue {
		f.pending.Forget(key)
		return was == nil || ok && uid == object.GetUID()
	}
	if was == nil {
		f.pending.Set(key, object.GetUID())
	}
	return false
}
