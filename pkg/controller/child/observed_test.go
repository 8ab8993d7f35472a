// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
)

// secretWith returns a Secret with the keys. The named manager has applied the owned keys.
func secretWith(manager string, owned []string, keys ...string) *corev1.Secret {
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for _, key := range slices.Concat(owned, keys) {
		secret.Data[key] = []byte("value of " + key)
	}
	fields := `{"f:data":{".":{},"f:` + strings.Join(owned, `":{},"f:`) + `":{}}}`
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
	}}
	return secret
}

func numberedKeys(count int) []string {
	keys := make([]string, 0, count)
	for i := range count {
		keys = append(keys, fmt.Sprintf("k%05x", i))
	}
	return keys
}

// TestObservedSecretMemory: only keys that the operator applied are cached, up to a limit.
func TestObservedSecretMemory(t *testing.T) {
	many := numberedKeys(60_000)
	tests := map[string]struct {
		secret *corev1.Secret
		want   []string
	}{
		"keys of others":                {secretWith(FieldManager, []string{"user", "password"}, many...), []string{"password", "user"}},
		"applied by another manager":    {secretWith("kubectl", many), nil},
		"applied as the operator":       {secretWith(FieldManager, many), many[:maxSecretKeys]},
		"without managed fields at all": {&corev1.Secret{Data: map[string][]byte{"a": nil}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)

			observed := reduce(test.secret, health.OfTyped)

			runtime.GC()
			runtime.ReadMemStats(&after)
			if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 64<<10 {
				t.Errorf("%d KiB are kept", took>>10)
			}
			if got := slices.Sorted(maps.Keys(observed.values)); !slices.Equal(got, test.want) {
				t.Errorf("keys are %q, want %q", got, test.want)
			}
			runtime.KeepAlive(test.secret)
			runtime.KeepAlive(observed)
		})
	}
}
