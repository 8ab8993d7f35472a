// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/refusal"
)

const (
	// maxRefusals is the number of events that are read about one workload.
	maxRefusals = 10
	// maxRefusalText bounds the text of the API server that is kept of an event.
	maxRefusalText = 1000
	// failedCreate is the reason of an event about a pod that cannot be created.
	failedCreate = "FailedCreate"
)

// refusals maps the API server's texts about a refused pod to a remedy. $1 is the subject of the
// text. Other texts name a webhook or a policy.
var refusals = []struct {
	text   refusal.Text
	remedy string
}{
	{refusal.QuotaExceeded, "raise the ResourceQuota $1, or lower what the pods request"},
	{refusal.QuotaUnspecified, "set the requests and limits that the ResourceQuota $1 counts"},
	{refusal.LimitExceeded, "meet the LimitRange of the namespace, or change it"},
	{refusal.PodSecurityViolated, "meet the Pod Security level of the namespace, or lower the level"},
}

// controllerPrefix is the text that the controllers of StatefulSets, DaemonSets and Jobs, and the
// recorder of their events, put before the answer of the API server.
var controllerPrefix = regexp.MustCompile(`^(?:\(combined from similar events\): )?(?:Error creating: |[Cc]reate Pod \S+ in StatefulSet \S+ failed error: )?`)

// podName is the name of a pod in the message of the API server. Each attempt to create a pod has
// another name, so with the name no two messages are equal.
var podName = regexp.MustCompile(`^pods "[^"]*" `)

// withoutPod returns an answer of the API server without the name of the refused pod.
func withoutPod(answer string) string { return podName.ReplaceAllLiteralString(answer, "pods ") }

// withRemedy adds to an answer of the API server about a pod what to do.
func withRemedy(answer string) string {
	for _, known := range refusals {
		if known.text.In(answer) {
			return answer + "; " + strings.Replace(known.remedy, "$1", known.text.Subject(answer), 1)
		}
	}
	return answer
}

// RefusedPods returns why the API server refuses the pods of a StatefulSet, DaemonSet or Job, and
// what to do: by the last of the first ten events of the controller. These workloads have no
// condition for it, as Deployments have. involved selects the workload by fields of the events,
// such as involvedObject.uid. RefusedPods sends one list, and returns an empty text without such an
// event.
func RefusedPods(ctx context.Context, events corev1client.EventInterface, involved fields.Set) (string, error) {
	selector := fields.AndSelectors(fields.SelectorFromSet(involved), fields.OneTermEqualSelector("reason", failedCreate))
	list, err := events.List(ctx, metav1.ListOptions{FieldSelector: selector.String(), Limit: maxRefusals})
	if err != nil {
		return "", fmt.Errorf("list events: %w", err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	answer := message.Line(controllerPrefix.ReplaceAllLiteralString(last.Message, ""), maxRefusalText)
	return withRemedy(withoutPod(answer)), nil
}
