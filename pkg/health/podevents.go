// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// maxPodEvents is the number of events that are read about one pod.
const maxPodEvents = 20

// WarningsOf returns the first events of a pod that are warnings. It sends one list.
func WarningsOf(ctx context.Context, events corev1client.EventInterface, pod *corev1.Pod) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning}.AsSelector()
	list, err := events.List(ctx, metav1.ListOptions{FieldSelector: selector.String(), Limit: maxPodEvents})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Items, nil
}

// LastSeen returns the time at which an event happened last.
func LastSeen(event corev1.Event) time.Time { return lastSeen(&event) }

func lastSeen(event *corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = event.EventTime.Time
	}
	if last.IsZero() {
		last = event.CreationTimestamp.Time
	}
	return last
}

// lastEvent returns the newest of the events that matter; nil without one. Of events of the same
// second, the name decides, which ends with a time.
func (f PodFacts) lastEvent(matters func(corev1.Event) bool) *corev1.Event {
	var last *corev1.Event
	for i := range f.Events {
		event := &f.Events[i]
		if matters(*event) && (last == nil || cmp.Or(lastSeen(last).Compare(lastSeen(event)), strings.Compare(last.Name, event.Name)) < 0) {
			last = event
		}
	}
	return last
}

// attempt is the ID of a container or sandbox in a text of the runtime. Each attempt has another one,
// so with the ID no two texts are equal.
var attempt = regexp.MustCompile(`\b[0-9a-f]{32,64}\b`)

// rpcStatus is the text that a runtime puts before its messages.
var rpcStatus = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// eventText returns the message of an event without the parts that differ between two attempts.
func eventText(event *corev1.Event) string {
	text := rpcStatus.ReplaceAllLiteralString(event.Message, "")
	return textOf(attempt.ReplaceAllLiteralString(text, "..."), maxEventText)
}
