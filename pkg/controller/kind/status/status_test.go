// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/message"
)

var (
	before = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	now    = before.Add(time.Hour + 123*time.Millisecond)
)

func condition(kind string, status metav1.ConditionStatus, generation int64, at time.Time, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(at), Reason: reason, Message: message,
	}
}

func TestEditor(t *testing.T) {
	var (
		later       = now.Truncate(time.Second)
		ready       = condition(apimeta.ConditionReady, metav1.ConditionTrue, 1, before, "Healthy", "fine")
		reconciling = condition(apimeta.ConditionReconciling, metav1.ConditionTrue, 1, before, "Upgrading", "wait")
		stalled     = condition(apimeta.ConditionStalled, metav1.ConditionTrue, 1, before, "BadChart", "help")
		deployed    = condition("Deployed", metav1.ConditionTrue, 1, before, "Installed", "")
	)
	tests := []struct {
		name  string
		start []metav1.Condition
		edit  func(e Editor)
		want  []metav1.Condition
	}{
		{
			"first condition", nil,
			func(e Editor) { e.Set("Deployed", metav1.ConditionFalse, "Waiting", "for app-a") },
			[]metav1.Condition{condition("Deployed", metav1.ConditionFalse, 2, later, "Waiting", "for app-a")},
		},
		{
			"same status keeps the transition time",
			[]metav1.Condition{deployed},
			func(e Editor) { e.Set("Deployed", metav1.ConditionTrue, "Upgraded", "to 2") },
			[]metav1.Condition{condition("Deployed", metav1.ConditionTrue, 2, before, "Upgraded", "to 2")},
		},
		{
			"new status gets a new transition time",
			[]metav1.Condition{deployed},
			func(e Editor) { e.Set("Deployed", metav1.ConditionUnknown, "Asking", "") },
			[]metav1.Condition{condition("Deployed", metav1.ConditionUnknown, 2, later, "Asking", "")},
		},
		{
			"removal",
			[]metav1.Condition{deployed, ready, stalled},
			func(e Editor) { e.Remove("Deployed", "Absent", apimeta.ConditionStalled) },
			[]metav1.Condition{ready},
		},
		{
			"ready after reconciling",
			[]metav1.Condition{deployed, reconciling},
			func(e Editor) { e.MarkReady("Healthy", "fine") },
			[]metav1.Condition{deployed, condition(apimeta.ConditionReady, metav1.ConditionTrue, 2, later, "Healthy", "fine")},
		},
		{
			"ready after stalled",
			[]metav1.Condition{stalled},
			func(e Editor) { e.MarkReady("Healthy", "fine") },
			[]metav1.Condition{condition(apimeta.ConditionReady, metav1.ConditionTrue, 2, later, "Healthy", "fine")},
		},
		{
			"reconciling after stalled",
			[]metav1.Condition{ready, stalled},
			func(e Editor) { e.MarkReconciling("Upgrading", "wait") },
			[]metav1.Condition{
				condition(apimeta.ConditionReady, metav1.ConditionFalse, 2, later, "Upgrading", "wait"),
				condition(apimeta.ConditionReconciling, metav1.ConditionTrue, 2, later, "Upgrading", "wait"),
			},
		},
		{
			"stalled after reconciling",
			[]metav1.Condition{ready, reconciling},
			func(e Editor) { e.MarkStalled("BadChart", "help") },
			[]metav1.Condition{
				condition(apimeta.ConditionReady, metav1.ConditionFalse, 2, later, "BadChart", "help"),
				condition(apimeta.ConditionStalled, metav1.ConditionTrue, 2, later, "BadChart", "help"),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conditions := append([]metav1.Condition{}, test.start...)
			test.edit(For(&conditions, 2, now))
			if diff := cmp.Diff(test.want, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessageTruncation(t *testing.T) {
	tests := []struct {
		name, message string
		want          func(got string) bool
	}{
		{"short", "hello", func(got string) bool { return got == "hello" }},
		{"at the limit", strings.Repeat("x", MaxMessageBytes), func(got string) bool { return len(got) == MaxMessageBytes && !strings.HasSuffix(got, message.Ellipsis) }},
		{"one byte over the limit", strings.Repeat("x", MaxMessageBytes+1), func(got string) bool {
			return len(got) == MaxMessageBytes && strings.HasSuffix(got, "x"+message.Ellipsis)
		}},
		{"truncated at a character of three bytes", "x" + strings.Repeat("\u20ac", MaxMessageBytes), func(got string) bool {
			return len(got) <= MaxMessageBytes && strings.HasSuffix(got, "\u20ac"+message.Ellipsis)
		}},
		{"truncated at a character of four bytes", strings.Repeat("\U0001F600", MaxMessageBytes), func(got string) bool {
			return len(got) > MaxMessageBytes-8 && strings.HasSuffix(got, "\U0001F600"+message.Ellipsis)
		}},
		{"invalid UTF-8", "a\xff\xfeb", func(got string) bool { return got == "a\uFFFDb" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var conditions []metav1.Condition
			For(&conditions, 1, now).Set("Deployed", metav1.ConditionFalse, "Failed", test.message)
			got := conditions[0].Message
			if !utf8.ValidString(got) || len(got) > MaxMessageBytes || !test.want(got) {
				t.Errorf("message of %d bytes ends %q", len(got), got[max(0, len(got)-20):])
			}
		})
	}
}

func TestCommit(t *testing.T) {
	type statusOf struct {
		Conditions []metav1.Condition
		Replicas   int32
	}
	zoned := before.In(time.FixedZone("somewhere", 3600))
	observed := statusOf{Conditions: []metav1.Condition{condition("Deployed", metav1.ConditionTrue, 1, before, "Installed", "")}}
	gr := schema.GroupResource{Resource: "apps"}
	tests := []struct {
		name    string
		desired statusOf
		answer  error
		calls   int
		wrote   bool
		check   func(error) bool
	}{
		{"equal", observed, nil, 0, false, nil},
		{
			"equal in another time zone",
			statusOf{Conditions: []metav1.Condition{condition("Deployed", metav1.ConditionTrue, 1, zoned, "Installed", "")}},
			nil, 0, false, nil,
		},
		{"different", statusOf{Replicas: 1}, nil, 1, true, nil},
		{"the object is gone", statusOf{Replicas: 1}, apierrors.NewNotFound(gr, "a"), 1, false, nil},
		{"a wrapped 404", statusOf{Replicas: 1}, fmt.Errorf("apply: %w", apierrors.NewNotFound(gr, "a")), 1, false, nil},
		{"admission misses another object", statusOf{Replicas: 1}, apierrors.NewNotFound(gr, "b"), 1, false, apierrors.IsNotFound},
		{"conflict", statusOf{Replicas: 1}, apierrors.NewConflict(gr, "a", errors.New("newer")), 1, false, apierrors.IsConflict},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			written, wrote, err := Commit(t.Context(), "a", observed, test.desired, func(context.Context) (*string, error) {
				calls++
				object := "as written"
				return &object, test.answer
			})
			if calls != test.calls || wrote != test.wrote || (written != nil) != test.wrote {
				t.Errorf("calls = %d, wrote = %t, written = %v", calls, wrote, written)
			}
			if test.check == nil && err != nil || test.check != nil && !test.check(err) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
