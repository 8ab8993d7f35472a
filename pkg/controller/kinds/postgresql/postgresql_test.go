// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

var created = []string{
	"patch postgresqls/db", "create secrets/db-credentials",
	"patch services/db-headless", "patch services/db", "patch services/db-read", "patch configmaps/db-scripts",
	"patch statefulsets/db", "patch poddisruptionbudgets/db", "patch postgresqls/db status", "event Normal Created",
}

// TestRequestBudget holds how many requests a PostgreSQL costs in its life: the children, a
// finalizer and two statuses.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(2)) })
		expect.Equal(t, "requests of the creation", created, w.Take())
		w.setPod(1, corev1.ConditionTrue)
		w.setPod(0, corev1.ConditionFalse)
		expect.Equal(t, "requests while servers start", []string(nil), w.Take())
		w.makeServersReady()
		expect.Equal(t, "requests when the servers are ready", []string{
			"patch configmaps/db-scripts", "patch postgresqls/db status", "patch postgresqls/db status", "event Normal Healthy",
		}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(3)) })
		// The first request of a new process confirms the PostgreSQL.
		expect.Equal(t, "requests of a third server", []string{
			"patch postgresqls/db", "patch statefulsets/db", "patch postgresqls/db status",
		}, w.Take())
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(1)) })
		expect.Equal(t, "requests of a single server", []string{
			"patch statefulsets/db", "delete poddisruptionbudgets/db", "patch postgresqls/db status",
		}, w.Take())
	})
}

// TestServersThatAreMissing: events are listed only when servers have been missing for some
// seconds, and then at growing intervals.
func TestServersThatAreMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		lists := func() (events int) {
			for _, action := range w.kube.Actions() {
				if action.Matches("list", "events") {
					events++
				}
			}
			w.kube.ClearActions()
			return events
		}
		w.setReplicas(2, 2)
		w.Wait(2 * time.Second)
		w.setReplicas(3, 3)
		w.Wait(time.Hour)
		expect.Equal(w.t, "lists after a server was missing for two seconds", 0, lists())

		w.setReplicas(2, 2)
		w.Wait(2 * time.Second)
		expect.Equal(w.t, "lists in two seconds", 0, lists())
		w.Wait(2 * time.Second)
		expect.Equal(w.t, "lists in four seconds", 1, lists())
		w.Wait(time.Hour)
		if got := lists(); got > 12 {
			w.t.Errorf("events were listed %d times in an hour", got)
		}

		w.setReplicas(3, 3)
		w.Wait(time.Hour)
		expect.Equal(w.t, "lists after the server came", 0, lists())
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Delete(w.World, w.kube.CoreV1().ConfigMaps("ns").Delete, "db-scripts")

		expect.Equal(w.t, "requests", []string{"patch configmaps/db-scripts", "patch postgresqls/db status", "event Normal DriftCorrected"}, w.Take())
	})
}

func TestChildren(t *testing.T) {
	inWorld(t, func(w *world) {
		services := map[string]corev1.ServiceSpec{}
		for _, name := range []string{"db", "db-read", "db-headless"} {
			found, err := w.kube.CoreV1().Services("ns").Get(t.Context(), name, metav1.GetOptions{})
			expect.NoError(t, err)
			services[name] = found.Spec
		}
		set := w.statefulSet()

		all := map[string]string{databasev1.LabelPostgreSQL: "db"}
		expect.Equal(w.t, "selector of the primary", map[string]string{databasev1.LabelPostgreSQL: "db", appsv1.StatefulSetPodNameLabel: "db-0"}, services["db"].Selector)
		expect.Equal(w.t, "selector of all servers", all, services["db-read"].Selector)
		expect.Equal(w.t, "headless Service", [2]any{corev1.ClusterIPNone, true}, [2]any{services["db-headless"].ClusterIP, services["db-headless"].PublishNotReadyAddresses})
		expect.Equal(w.t, "name of the headless Service", "db-headless", set.Spec.ServiceName)
		claim := set.Spec.VolumeClaimTemplates[0]
		expect.Equal(w.t, "size", resource.MustParse("10Gi"), claim.Spec.Resources.Requests[corev1.ResourceStorage])
		expect.Equal(w.t, "labels of the claims", all, claim.Labels)
		expect.Equal(w.t, "image", "postgres:16", set.Spec.Template.Spec.Containers[0].Image)
	})
}

func TestImageOfFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Version = "17" })

		expect.Equal(t, "image", "mirror.example.com/postgres:17.2", w.statefulSet().Spec.Template.Spec.Containers[0].Image)
	})
}

// TestPodsAreRestricted holds the fields of the restricted Pod Security profile, and that no value
// of a Secret is in a pod.
func TestPodsAreRestricted(t *testing.T) {
	inWorld(t, func(w *world) {
		pod := w.statefulSet().Spec.Template.Spec
		container := pod.Containers[0]

		expect.Equal(w.t, "pod", &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(999)), RunAsGroup: ptr.To(int64(999)), FSGroup: ptr.To(int64(999)),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, pod.SecurityContext)
		expect.Equal(w.t, "container", &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, container.SecurityContext)
		expect.Equal(w.t, "token", ptr.To(false), pod.AutomountServiceAccountToken)
		var names []string
		for _, variable := range container.Env {
			names = append(names, variable.Name)
		}
		expect.Equal(w.t, "environment", []string{"POD_NAME", "STATEFULSET", "SERVICE"}, names)
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		phases := map[string]string{}
		note := func(when string) {
			phases[when] = w.database().Status.Phase + " " + w.condition(databasev1.ConditionDatabaseReady).Reason
		}

		w.create(func(*databasev1.PostgreSQL) {})
		note("created")
		w.setPod(0, corev1.ConditionFalse)
		w.makeServerReady(0)
		note("primary ready")
		w.makeServersReady()
		note("all ready")
		expect.Equal(t, "readyReplicas", int32(3), w.database().Status.ReadyReplicas)
		expect.Equal(t, "endpoint", "db.ns.svc.example.org:5432", w.database().Status.Endpoint)
		w.setPod(0, corev1.ConditionFalse)
		w.makeStatefulSetReady(2)
		note("primary away")

		expect.Equal(t, "phases", map[string]string{
			"created": "Pending Starting", "primary ready": "Degraded Available", "all ready": "Running Available", "primary away": "Degraded Unavailable",
		}, phases)
	})
}

// makeStatefulSetReady reports this number of servers as ready.
func (w *world) makeStatefulSetReady(ready int32) {
	w.t.Helper()
	set := w.statefulSet()
	set.Status.ReadyReplicas = ready
	controllertest.Update(w.World, w.kube.AppsV1().StatefulSets("ns").UpdateStatus, set)
	w.Wait(time.Second)
}
