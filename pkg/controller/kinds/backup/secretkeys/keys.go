// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package secretkeys

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/metacache"
)

// Keys are the relevant keys of all Secrets, except Helm's release records.
type Keys struct {
	informers map[string]cache.SharedIndexInformer
	cached    controller.Scoped[*secret]
}

// secret is the cached part of a Secret.
type secret struct {
	metav1.ObjectMeta

	// keys are the relevant ones, sorted. They are unknown if a client has removed the managed
	// fields.
	keys    []string
	unknown bool
}

// New returns which of the relevant keys the Secrets have. Other keys are not cached, because
// tenants choose their number and length. References may name relevant keys only. All kinds of the
// process share one watch, so they must pass the same keys.
func New(env child.Informers, client metadata.Interface, relevant ...string) (*Keys, error) {
	informers, err := env.Informers("keys of Secrets", func(namespace string) (cache.SharedIndexInformer, error) {
		return metacache.NewInformer(env.Selection(), client, corev1.SchemeGroupVersion.WithResource("secrets"), namespace, metacache.ExceptReleaseRecords,
			func(whole *metav1.PartialObjectMetadata) *secret { return reduce(whole, relevant) })
	})
	if err != nil {
		return nil, err
	}
	k := &Keys{informers: informers, cached: controller.Scoped[*secret]{}}
	for namespace, informer := range informers {
		k.cached[namespace] = informer.GetIndexer()
	}
	return k, nil
}

// Watch queues the owners of a Secret when it appears, when its keys change, and when it is gone.
// owners returns the objects that use a Secret.
func (k *Keys) Watch(loop child.Loop, owners func(secret cache.ObjectName) []cache.ObjectName) error {
	of := func(s *secret) []cache.ObjectName { return owners(cache.MetaObjectToName(s)) }
	why := func(before, after *secret) controller.Reason {
		if before != nil && after != nil && before.unknown == after.unknown && slices.Equal(before.keys, after.keys) {
			return 0
		}
		return controller.DependencyReady
	}
	for _, informer := range k.informers {
		synced, err := controller.AddHandler("keys of Secrets", informer, controller.MapHandler(loop.Queue(), of, why))
		if err != nil {
			return err
		}
		loop.Await(synced)
	}
	return nil
}

// Reference is a field of an owner that names a Secret.
type Reference struct {
	// Field is the path of the field, such as spec.credentialsSecret.
	Field string
	// Secret is the name of the Secret, in the owner's namespace.
	Secret string
	// Keys are the keys that the Secret must have.
	Keys []string
}

// Missing is a reference whose Secret, or keys of it, do not exist.
type Missing struct {
	// NoSecret says that the Secret does not exist.
	NoSecret bool
	// Message names the field, the Secret and the keys, and says what to do.
	Message string
}

// FirstMissing returns the first reference whose Secret or keys do not exist, or nil. If the keys
// of a Secret are unknown, they count as existing.
func (k *Keys) FirstMissing(namespace string, references ...Reference) *Missing {
	for _, r := range references {
		found, exists := k.cached.Get(cache.NewObjectName(namespace, r.Secret))
		if !exists {
			return &Missing{NoSecret: true, Message: fmt.Sprintf("%s: Secret %q does not exist: create it with %s",
				r.Field, r.Secret, strings.Join(r.Keys, ", "))}
		}
		lacks := slices.DeleteFunc(slices.Clone(r.Keys), func(key string) bool { return found.unknown || slices.Contains(found.keys, key) })
		if len(lacks) > 0 {
			return &Missing{Message: fmt.Sprintf("%s: Secret %q lacks %s: add what is missing", r.Field, r.Secret, strings.Join(lacks, ", "))}
		}
	}
	return nil
}

// reduce keeps the identity and the relevant keys of a Secret.
func reduce(whole *metav1.PartialObjectMetadata, relevant []string) *secret {
	kept := &secret{ObjectMeta: metacache.Identity(whole).ObjectMeta, unknown: len(whole.ManagedFields) == 0}
	for _, entry := range whole.ManagedFields {
		var fields struct {
			Data       map[string]json.RawMessage `json:"f:data"`
			StringData map[string]json.RawMessage `json:"f:stringData"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for _, set := range []map[string]json.RawMessage{fields.Data, fields.StringData} {
			for _, key := range relevant {
				if _, has := set["f:"+key]; has {
					kept.keys = append(kept.keys, key)
				}
			}
		}
	}
	slices.Sort(kept.keys)
	kept.keys = slices.Clip(slices.Compact(kept.keys))
	return kept
}
