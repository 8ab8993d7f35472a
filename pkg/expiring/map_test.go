// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package expiring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/expiring"
)

func TestEntriesExpire(t *testing.T) {
	var m expiring.Map[string, int]
	now := time.Unix(0, 0)

	replaced := m.Set("a", 1, time.Minute, now)
	replacedAgain := m.Set("a", 2, time.Minute, now.Add(time.Second))
	value, ok := m.Get("a", now.Add(time.Minute))
	_, late := m.Get("a", now.Add(time.Minute+time.Second))
	replacedLate := m.Set("a", 3, time.Minute, now.Add(time.Hour))

	if replaced || !replacedAgain || replacedLate {
		t.Errorf("replaced: %t, %t, %t, want false, true, false", replaced, replacedAgain, replacedLate)
	}
	if !ok || value != 2 || late {
		t.Errorf("got %d, %t within the minute and %t after it", value, ok, late)
	}
}

func TestExpiredEntriesAreDropped(t *testing.T) {
	var m expiring.Map[int, struct{}]
	now := time.Unix(0, 0)
	for i := range 1000 {
		m.Set(i, struct{}{}, time.Minute, now)
	}

	m.Set(1000, struct{}{}, time.Minute, now.Add(2*time.Minute))

	if got := m.Len(); got != 1 {
		t.Errorf("%d entries, want 1", got)
	}
}

func TestNamespaceEvictsNoEntryOfAnother(t *testing.T) {
	m := expiring.Map[string, string]{
		Limit:     8,
		Namespace: func(name string) string { namespace, _, _ := strings.Cut(name, "/"); return namespace },
	}
	now := time.Unix(0, 0)
	set := func(name string) {
		now = now.Add(time.Millisecond)
		m.Set(name, name, time.Minute, now)
	}

	set("small/a")
	for i := range 100 {
		set(fmt.Sprintf("large/%d", i))
	}

	if got := m.Len(); got != 8 {
		t.Errorf("%d entries, want 8", got)
	}
	for _, name := range []string{"small/a", "large/93", "large/99"} {
		if _, ok := m.Get(name, now); !ok {
			t.Errorf("%s was evicted", name)
		}
	}
}

func TestTake(t *testing.T) {
	var m expiring.Map[string, int]
	now := time.Unix(0, 0)
	for _, key := range []string{"a", "ab", "b"} {
		m.Set(key, 0, time.Minute, now)
	}
	m.Delete("ab")

	taken := m.Take(func(key string) bool { return strings.HasPrefix(key, "a") })

	if !slices.Equal(taken, []string{"a"}) || m.Len() != 1 {
		t.Errorf("took %q, and %d entries are left", taken, m.Len())
	}
}
