// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/test/expect"
)

func TestRefusedPodsOfEvents(t *testing.T) {
	const ofSet, ofJob = "Create Pod db-0 in StatefulSet db failed error: ", "Error creating: "
	const webhook = `admission webhook "images.example.com" denied the request: no`
	tests := map[string]struct {
		messages []string // The oldest first.
		want     string
	}{
		"no event":    {nil, ""},
		"StatefulSet": {[]string{ofSet + webhook}, webhook},
		"quota": {
			[]string{ofJob + `pods "a-1-x" is forbidden: exceeded quota: small, requested: pods=1`},
			"pods is forbidden: exceeded quota: small, requested: pods=1; raise the ResourceQuota small, or lower what the pods request",
		},
		"quota of requests": {
			[]string{ofJob + `pods "a-1-x" is forbidden: failed quota: small: must specify limits.cpu for: dump`},
			"pods is forbidden: failed quota: small: must specify limits.cpu for: dump; set the requests and limits that the ResourceQuota small counts",
		},
		"LimitRange": {
			[]string{ofJob + `pods "a-1-x" is forbidden: maximum memory usage per Container is 1Mi, but limit is 2Mi`},
			"pods is forbidden: maximum memory usage per Container is 1Mi, but limit is 2Mi; meet the LimitRange of the namespace, or change it",
		},
		"Pod Security": {
			[]string{ofJob + `pods "a-1-x" is forbidden: violates PodSecurity "restricted:latest": privileged`},
			`pods is forbidden: violates PodSecurity "restricted:latest": privileged; meet the Pod Security level of the namespace, or lower the level`,
		},
		"last of several": {[]string{ofJob + "first", "(combined from similar events): " + ofJob + webhook}, webhook},
		"several lines":   {[]string{ofJob + "one\ntwo"}, "one two"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client := kubefake.NewClientset()
			for i, message := range tt.messages {
				expect.NoError(t, client.Tracker().Add(&corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(9 - i)}, Message: message,
					LastTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
				}))
			}

			got, err := health.RefusedPods(t.Context(), client.CoreV1().Events("ns"), fields.Set{"involvedObject.uid": "7"})

			expect.NoError(t, err)
			expect.Equal(t, "refusal", tt.want, got)
		})
	}
}

// TestRefusalIsBounded: anyone who may create events in the namespace chooses their texts.
func TestRefusalIsBounded(t *testing.T) {
	client := kubefake.NewClientset(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Message: "exceeded quota: small, " + strings.Repeat("x", 1<<20),
	})

	got, err := health.RefusedPods(t.Context(), client.CoreV1().Events("ns"), fields.Set{"involvedObject.uid": "7"})

	expect.NoError(t, err)
	if len(got) > 1100 || !strings.HasSuffix(got, "raise the ResourceQuota small, or lower what the pods request") {
		t.Errorf("the refusal has %d bytes: %s", len(got), got)
	}
	options := client.Actions()[0].(clienttesting.ListActionImpl).ListOptions
	expect.Equal(t, "field selector", "involvedObject.uid=7,reason=FailedCreate", options.FieldSelector)
	expect.Equal(t, "limit", int64(10), options.Limit)
}
