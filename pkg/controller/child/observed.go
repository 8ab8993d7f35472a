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

// maxSecretKeys limits the keys of a Secret that are kept.
const maxSecretKeys = 100

// Observed is what is kept of a child: what ownership, drift and health are told by.
type Observed struct {
	metav1.ObjectMeta

	Health health.Health
	// Condition is the condition that [Kind.WithCondition] names; empty for other kinds.
	Condition Condition

	trace ssa.Trace
	// containers are those of a Deployment; nil for other kinds.
	containers []containerImage
	// values authenticates the operator's values of a Secret, by key; nil for other kinds.
	values map[string][sha256.Size]byte
}

// Condition is a condition of a child, without its type, generation and time.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// containerImage is the image of a container.
type containerImage struct{ container, image string }

// Image returns the image of a container of a Deployment; empty for none, also of a nil child.
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

// observe returns what is kept of an object, which is not changed.
func (k Kind) observe(object metav1.Object) *Observed {
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

// reduce is observe for an object that is not shared.
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

// valuesOf authenticates the values of a Secret whose keys the operator applied. Other clients may
// add any number of keys. They may also apply keys under the name of the operator; the first keys
// by name count then.
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

// processKey makes the digests of Secrets' values worthless outside this process: values
// can be short enough to be guessed from a plain digest.
var processKey = []byte(rand.Text())

func authenticate(value []byte) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, processKey)
	mac.Write(value)
	mac.Sum(sum[:0])
	return sum
}
