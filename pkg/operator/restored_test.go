// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestRestoreOfEtcd: an answer about the Lease that is older than the state known before its request
// ends the process.
func TestRestoreOfEtcd(t *testing.T) {
	tests := map[string]struct {
		versions []string
		want     string
	}{
		"the cluster goes on":             {[]string{"100", "100", "250"}, ""},
		"restored":                        {[]string{"100", "250", "99"}, "from resourceVersion 250 to 99"},
		"restored to the version of then": {[]string{"100", "250", "100", "101"}, "from resourceVersion 250 to 100"},
		"versions that are no numbers":    {[]string{"b", "a"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				watch, answer := newWatchedLease()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- watch.run(ctx) }()
				leases := watch.Leases("demoapp-system")

				for i, version := range test.versions {
					*answer = version
					var err error
					if i%2 == 0 {
						_, err = leases.Get(t.Context(), "demoapp-controller", metav1.GetOptions{})
					} else {
						_, err = leases.Update(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "demoapp-controller"}}, metav1.UpdateOptions{})
					}
					if err != nil {
						t.Fatal(err)
					}
				}

				synctest.Wait()
				cancel()
				text := ""
				if err := <-ended; err != nil {
					text = err.Error()
				}
				if test.want == "" && text != "" || !strings.Contains(text, test.want) {
					t.Errorf("the end is %q, want one with %q", text, test.want)
				}
			})
		})
	}
}

// TestAnswersInAnotherOrder: an answer that arrives after the answer to a later request says nothing.
func TestAnswersInAnotherOrder(t *testing.T) {
	watch, answer := newWatchedLease()
	lease := watch.Leases("demoapp-system").(watchedLease)
	_, err := lease.ask("demoapp-controller", func() (*coordinationv1.Lease, error) {
		*answer = "250"
		if _, err := lease.Get(t.Context(), "demoapp-controller", metav1.GetOptions{}); err != nil {
			return nil, err
		}
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}

	select {
	case err := <-watch.restored:
		t.Errorf("the process ends: %v", err)
	default:
	}
}

// TestRestoredLease: a Lease from a backup names a holder that no longer exists, and the time of another
// clock. A candidate waits for the lease duration by its own clock.
func TestRestoredLease(t *testing.T) {
	for name, renewed := range map[string]time.Duration{"an hour ago": -time.Hour, "in an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: leaseOptions.ResourceNamespace, Name: leaseOptions.ResourceName},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: ptr.To("gone"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Now().Add(renewed)},
					},
				})
				a := newCandidate(t, client, "a", drains(0))
				elapse(leaseOptions.LeaseDuration + 3*leaseOptions.RetryPeriod)
				synctest.Wait()

				if got := holder(t, client); got != "a" || !a.leads.Load() {
					t.Errorf("the lease is held by %q, a leads: %v", got, a.leads.Load())
				}
				a.stop()
				if err := <-a.ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// newWatchedLease returns a watch, and the resourceVersion of the next answers.
func newWatchedLease() (*restoreWatch, *string) {
	client, version := fake.NewClientset(), ""
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "demoapp-controller", ResourceVersion: version}}, nil
	})
	return newRestoreWatch(client.CoordinationV1()), &version
}
