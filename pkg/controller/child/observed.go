// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// maxSecretKeys limits the cached keys of a Secret.
	maxSecretKeys = 100
	// maxLabels limits the cached labels of an object. Only the labels of an object without a
	// controller are cached.
	maxLabels = 100
)

// Observed is the observed state of a child: the fields that determine ownership, drift and health.
type Observed struct {
	metav1.ObjectMeta

	Health health.Health
	// Condition is the condition of [ManagedKind.WithCondition]. It is empty for other kinds.
	Condition Condition

	trace ssa.Trace
	// containers has the containers of a Deployment. It is nil for other kinds.
	containers []containerImage
	// values has keyed digests of the operator's values of a Secret, by key. It is nil for other
	// kinds.
	values map[string][sha256.Size]byte
}

// Condition is a condition of a child, without its type, generation and time.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// containerImage is the image of a container.
type containerImage struct{ container, image string }

// Image returns the image of a container of a Deployment. It is empty if there is no such
// container, or if o is nil.
func (o *Observed) Image(container string) string {
	if o == nil {
		return ""
	}
	for _, c := range o.containers {
		if c.container == container {
			return c.image
		}
	}
	return ""
}

// observe returns the observed state of an object, and does not change the object.
func (k ManagedKind) observe(object metav1.Object) *Observed {
	if observed, done := object.(*Observed); done {
		return observed
	}
	if whole, ok := object.(runtime.Object); ok {
		if copied, ok := whole.DeepCopyObject().(metav1.Object); ok {
			object = copied
		}
	}
	observed := reduce(object, k.health)
	if k.condition != nil {
		observed.Condition = k.condition(object)
	}
	return observed
}

// reduce is like observe, for an object that is not shared.
func reduce(object metav1.Object, healthOf func(metav1.Object) health.Health) *Observed {
	slim := &Observed{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
			ResourceVersion: object.GetResourceVersion(), DeletionTimestamp: object.GetDeletionTimestamp(),
		},
		Health: healthOf(object),
		trace:  ssa.TraceOf(object, ssa.ManagedFields(object), FieldManager),
	}
	if controller := metav1.GetControllerOf(object); controller != nil {
		slim.OwnerReferences = []metav1.OwnerReference{*controller}
	} else if labels := object.GetLabels(); len(labels) <= maxLabels {
		slim.Labels = maps.Clone(labels)
	}
	if deployment, ok := object.(*appsv1.Deployment); ok {
		for _, c := range deployment.Spec.Template.Spec.Containers {
			slim.containers = append(slim.containers, containerImage{c.Name, c.Image})
		}
	}
	if secret, ok := object.(*corev1.Secret); ok {
		slim.values = valuesOf(secret)
	}
	return slim
}

// valuesOf returns keyed digests of the values of a Secret whose keys the operator applied. Other
// clients may apply any number of keys under the operator's field manager, so only the first
// maxSecretKeys keys by name count.
func valuesOf(secret *corev1.Secret) map[string][sha256.Size]byte {
	values := map[string][sha256.Size]byte{}
	var owned struct {
		Data map[string]json.RawMessage `json:"f:data"`
	}
	fields := ssa.OwnedFields(secret.GetManagedFields(), FieldManager)
	if fields == nil || json.Unmarshal(fields.GetRawBytes(), &owned) != nil {
		return values
	}
	for _, field := range slices.Sorted(maps.Keys(owned.Data)) {
		key := strings.TrimPrefix(field, "f:")
		if value, ok := secret.Data[key]; ok && len(values) < maxSecretKeys {
			values[strings.Clone(key)] = authenticate(value)
		}
	}
	return values
}

// processKey makes the digests of Secret values useless outside this process. A short value could
// be guessed from a plain digest.
var processKey = []byte(rand.Text())

func authenticate(value []byte) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, processKey)
	mac.Write(value)
	mac.Sum(sum[:0])
	return sum
}
