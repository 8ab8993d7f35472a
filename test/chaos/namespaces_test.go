// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

// statusWrites is the number of requests at the end of a creation that write the status while pods
// become ready.
const statusWrites = 2

// deleting bounds how many namespaces are deleted at the same time. To delete one, the cluster
// lists and deletes all kinds, more than once.
var deleting = make(chan struct{}, 8)

// TestNamespaceDeleted deletes the namespace of each subject, with all that is in it, when the
// operator sends one of the requests that create the subject's objects. Then it plays the subject
// in a new namespace of the same name: nothing of the old one may disturb it. A short test deletes
// the namespace at one request, which the seed selects.
func TestNamespaceDeleted(t *testing.T) { //nolint:tparallel // The other tests disturb all runs.
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, _ := undisturbed[name](t)
			for _, nth := range requestsUpTo(want.creations - statusWrites) {
				t.Run(strconv.Itoa(nth), func(t *testing.T) {
					t.Parallel()
					namespace := shared.Namespace(t)
					t.Run("deleted", func(t *testing.T) { deleteMidway(t, s, namespace, nth) })
					if sabotage.met(namespace) == 0 {
						t.Skip("does not count: the operator did not send the request")
					}
					count(t, 1)
					t.Run("again", func(t *testing.T) {
						sabotage.watch(namespace, plan{})
						shared.CreateNamespace(t, metav1.ObjectMeta{Name: namespace})

						came := play(t, s, namespace, &want, nil)

						// The first object has a record if the operator knew it before its deletion.
						if came.audits < want.audits || came.audits > 2*want.audits {
							t.Errorf("%d audit records, want %d or %d", came.audits, want.audits, 2*want.audits)
						}
						came.audits = want.audits
						assertOutcome(t, want, came)
					})
				})
			}
		})
	}
}

// requestsUpTo returns the numbers of requests, from 1 to most. In a short test, these are one,
// which the seed selects.
func requestsUpTo(most int) []int {
	if testing.Short() {
		return []int{1 + rand.New(rand.NewPCG(uint64(*seed), uint64(most))).IntN(most)}
	}
	numbers := make([]int, most)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

// deleteMidway creates the object of a subject, and deletes its namespace when the operator sends a
// request. It does nothing if the operator is done without the request: the number of status writes
// varies.
func deleteMidway(t *testing.T, s subject, namespace string, nth int) {
	t.Helper()
	deleting <- struct{}{}
	defer func() { <-deleting }()
	ctx := t.Context()
	sabotage.watch(namespace, plan{nth: nth, times: 1, fault: func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if err := shared.Client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		forward.ServeHTTP(w, r)
	}})
	defer func() {
		if t.Failed() {
			t.Logf("the namespace was deleted at request %d of %q", nth, sabotage.sent(namespace))
		}
	}()
	s.prepare(t, namespace)
	object := apply(ctx, t, namespace, s.object)[0]
	cluster.Eventually(ctx, t, "the operator has sent the request or is done", func(ctx context.Context) (bool, error) {
		if sabotage.met(namespace) > 0 {
			return true, nil
		}
		if done, err := isReadyNow(ctx, clientOf(t, object, namespace)); !done || err != nil {
			return false, err
		}
		return true, shared.AwaitAuditQuiet(ctx, quiet, ofNamespace(namespace))
	})
	if sabotage.met(namespace) > 0 {
		awaitGone(ctx, t, shared.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), namespace)
	}
}
