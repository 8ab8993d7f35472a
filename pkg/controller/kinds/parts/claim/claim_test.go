// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// hosts are claims of ConfigMaps, because the kind does not matter.
var hosts = Claims[*corev1.ConfigMap]{
	Name:      "host",
	Requested: func(c *corev1.ConfigMap) string { return c.Data["requested"] },
	Held:      func(c *corev1.ConfigMap) string { return c.Data["held"] },
}

// claimant is an object that was created at a second, and requests and holds values.
func claimant(uid types.UID, second int64, requested, held string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid, CreationTimestamp: metav1.Unix(second, 0)},
		Data:       map[string]string{"requested": requested, "held": held},
	}
}

func TestPrecedence(t *testing.T) {
	object := claimant("b", 100, "h", "")
	holder := claimant("b", 100, "h", "h")
	tests := []struct {
		name   string
		object *corev1.ConfigMap
		other  *corev1.ConfigMap
		want   bool
	}{
		{"an older claimant", object, claimant("a", 99, "h", ""), true},
		{"a younger claimant", object, claimant("a", 101, "h", ""), false},
		{"a claimant of the same second with a lower UID", object, claimant("a", 100, "h", ""), true},
		{"a claimant of the same second with a higher UID", object, claimant("c", 100, "h", ""), false},
		{"a younger holder", object, claimant("a", 101, "h", "h"), true},
		{"a holder that requests another value", object, claimant("a", 101, "other", "h"), true},
		{"an older claimant, and the object holds the value", holder, claimant("a", 1, "h", ""), false},
		{"an older holder, and the object holds the value", holder, claimant("a", 1, "h", "h"), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := hosts.precedes(test.other, test.object, "h"); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestConflictDoesNotNameOtherTenant(t *testing.T) {
	object, rival := claimant("a", 1, "h", ""), claimant("secret-project", 1, "h", "h")
	same := hosts.taken(object, rival, "spec.host", "Shop")
	rival.Namespace = "other"

	other := hosts.taken(object, rival, "spec.host", "Shop")

	if want := `spec.host: h belongs to Shop "secret-project": choose another host`; same != want {
		t.Errorf("got %q, want %q", same, want)
	}
	if want := "spec.host: h belongs to an object of kind Shop in another namespace: choose another host"; other != want {
		t.Errorf("got %q, want %q", other, want)
	}
}

func TestChanged(t *testing.T) {
	before := claimant("a", 1, "h", "")
	touched := before.DeepCopy()
	touched.Labels = map[string]string{"touched": time.Second.String()}

	if got := hosts.Changed(before, touched); got != 0 {
		t.Errorf("a change of labels is %v", got)
	}
	for name, after := range map[string]*corev1.ConfigMap{
		"another request": claimant("a", 1, "other", ""), "another held value": claimant("a", 1, "h", "h"), "a deletion": nil,
	} {
		if hosts.Changed(before, after) == 0 {
			t.Errorf("%s queues no claimant", name)
		}
	}
}

// cachedClaims is a Loop whose cache has these objects.
type cachedClaims struct {
	Loop[*corev1.ConfigMap]

	indexer cache.Indexer
}

func newCachedClaims(t *testing.T, objects ...*corev1.ConfigMap) cachedClaims {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{hosts.Name: func(object any) ([]string, error) {
		return hosts.Of(object.(*corev1.ConfigMap)), nil
	}})
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return cachedClaims{indexer: indexer}
}

// Cached implements Loop.
func (c cachedClaims) Cached() controller.Scoped[*corev1.ConfigMap] {
	return controller.Scoped[*corev1.ConfigMap]{metav1.NamespaceAll: c.indexer}
}

// Newest implements Loop.
func (cachedClaims) Newest(cached *corev1.ConfigMap) *corev1.ConfigMap { return cached }

// TestChangeQueuesOneClaimant: with 300 claimants of a host, a change queues only the claimant that
// gains or loses the host.
func TestChangeQueuesOneClaimant(t *testing.T) {
	holder := claimant("holder", 500, "h", "h")
	loser := claimant("loser", 400, "h", "")
	objects := []*corev1.ConfigMap{holder, loser}
	for i := range int64(300) {
		objects = append(objects, claimant(types.UID(fmt.Sprintf("uid-%03d", i)), 100+i, "h", ""))
	}
	loop := newCachedClaims(t, objects...)
	tests := []struct {
		name   string
		object *corev1.ConfigMap
		want   []cache.ObjectName
	}{
		{"the holder", holder, []cache.ObjectName{cache.NewObjectName("ns", "uid-000")}},
		{"a claimant that is refused", loser, nil},
		{"another holder", claimant("second", 1, "", "h"), []cache.ObjectName{cache.NewObjectName("ns", "holder")}},
		{"an older claimant", claimant("oldest", 1, "h", ""), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := hosts.affected(loop, test.object); !slices.Equal(got, test.want) {
				t.Errorf("queued %v, want %v", got, test.want)
			}
		})
	}
	if got, want := hosts.Refusal(loop, loser, "spec.host", "Shop"), `spec.host: h belongs to Shop "holder": choose another host`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
