// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/cluster"
)

// fault is a state in which an object is not ready.
type fault struct {
	name string
	// objects are YAML documents. $NAMESPACE is the namespace.
	objects string
	// object is the object that is asked about, as KIND/NAME, and flags are further flags of the
	// command.
	object string
	flags  []string
	// podStatus is the status that the kubelet is played with, for the pods whose names begin with
	// pods, and event is an event of these pods, as REASON: MESSAGE.
	pods, podStatus, event string
	// change is a change, as YAML documents that are applied once first is ready, or object without
	// it. With awaitRefusal, they are applied once admission refuses a Service.
	change, first string
	awaitRefusal  bool
	// delete deletes the object before the question.
	delete bool
	// cause is the beginning of KIND/NAME of the object to blame, verdict the exit code, and text a
	// part of the answer.
	cause   string
	verdict inspect.Verdict
	text    string
	// ready is a part of the message of the condition Ready of the object itself.
	ready string
}

func TestWhy(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, fault := range faults {
		names[fault.name] = true
	}
	if len(names) < 50 {
		t.Errorf("%d faults, want at least 50", len(names))
	}
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.Namespace(t)
			tt.make(t, namespace)

			var last answer
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the last answer has exit code %d:\n%s%s", last.code, last.out, last.errors)
				}
			})
			cluster.Eventually(t.Context(), t, "the cause "+tt.cause, func(context.Context) (bool, error) {
				args := []string{"why", tt.object, "-o", "json"}
				for _, flag := range tt.flags {
					args = append(args, strings.ReplaceAll(flag, "$NAMESPACE", namespace))
				}
				last = kubectl(t, namespace, args...)
				var got struct {
					Cause struct{ Kind, Name string }
					Steps []struct{ Message string }
				}
				if err := json.Unmarshal([]byte(last.out), &got); err != nil {
					return false, fmt.Errorf("%w: %s", err, last.errors)
				}
				cause := got.Cause.Kind + "/" + got.Cause.Name
				if len(got.Steps) > 0 && !strings.Contains(got.Steps[0].Message, tt.ready) {
					return false, nil
				}
				return strings.HasPrefix(cause, strings.ReplaceAll(tt.cause, "$NAMESPACE", namespace)) &&
					last.code == int(tt.verdict) && strings.Contains(last.out, strings.ReplaceAll(tt.text, "$NAMESPACE", namespace)), nil
			})
		})
	}
}

// make brings the fault about.
func (f fault) make(t *testing.T, namespace string) {
	t.Helper()
	apply(t, namespace, f.objects)
	if f.change != "" {
		first := cmp.Or(f.first, f.object)
		cluster.Eventually(t.Context(), t, first+" is ready", func(ctx context.Context) (bool, error) {
			if !f.awaitRefusal {
				return kubectl(t, namespace, "why", first).code == 0, nil
			}
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err := shared.Client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "denied request"), nil
		})
		apply(t, namespace, f.change)
	}
	if f.pods != "" {
		f.playKubelet(t, namespace)
	}
	if f.delete {
		kind, name, _ := strings.Cut(f.object, "/")
		deleteObject(t, namespace, kind, name)
	}
}

// playKubelet waits for a pod, and writes its status and its event.
func (f fault) playKubelet(t *testing.T, namespace string) {
	t.Helper()
	client := shared.Client.CoreV1()
	var pod corev1.Pod
	cluster.Eventually(t.Context(), t, "a pod "+f.pods, func(ctx context.Context) (bool, error) {
		pods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, candidate := range pods.Items {
			if strings.HasPrefix(candidate.Name, f.pods) && len(candidate.Status.ContainerStatuses) > 0 {
				pod = candidate
				return true, nil
			}
		}
		return false, nil
	})
	if f.podStatus != "" {
		patch, err := yaml.YAMLToJSON([]byte("status:\n  " + strings.ReplaceAll(strings.TrimSpace(f.podStatus), "\n", "\n  ")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	if f.event != "" {
		reason, message, _ := strings.Cut(f.event, ": ")
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "fault-", Namespace: namespace},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID},
			Reason:         reason, Message: message, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
		}
		if _, err := client.Events(namespace).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
