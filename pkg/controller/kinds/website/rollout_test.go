// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

const mirror = "registry.example.com"

// fleet runs a test with thirty Websites of three namespaces, whose pods are ready.
func fleet(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 30 {
			w.Act(func() error {
				_, err := w.client.WebappV1().Websites(namespaceOf(i)).Create(w.t.Context(), &webappv1.Website{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web", i)},
					Spec:       webappv1.WebsiteSpec{Replicas: ptr.To[int32](1), Image: images.NGINX, HTML: "<h1>one</h1>"},
				}, metav1.CreateOptions{})
				return err
			})
		}
		w.rollOut(controllertest.RolledOut)
		w.Wait(time.Minute)
		test(w)
	})
}

func namespaceOf(i int) string { return fmt.Sprint("ns", i/10) }

// upgrade starts an operator that pulls its images from a mirror.
func (w *world) upgrade(registry string) {
	w.t.Helper()
	w.Stop()
	table, err := images.Parse(registry, nil)
	expect.NoError(w.t, err)
	w.images = table
	w.start()
	w.Wait(time.Minute)
}

// mirrored returns the Deployments whose pods have the image of the mirror, by namespace.
func (w *world) mirrored() map[string]int {
	w.t.Helper()
	found := map[string]int{}
	for _, d := range w.deployments() {
		if strings.HasPrefix(d.Spec.Template.Spec.Containers[0].Image, mirror) {
			found[d.Namespace]++
		}
	}
	return found
}

func (w *world) deployments() []appsv1.Deployment {
	w.t.Helper()
	var list *appsv1.DeploymentList
	w.Act(func() (err error) {
		list, err = w.kube.AppsV1().Deployments("").List(w.t.Context(), metav1.ListOptions{})
		return err
	})
	return list.Items
}

// failed is the status of a Deployment whose pods do not start.
func failed(d *appsv1.Deployment) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
	}}
}

// rollOut plays the controller of Deployments.
func (w *world) rollOut(status func(*appsv1.Deployment) appsv1.DeploymentStatus, namespaces ...string) {
	w.t.Helper()
	for _, d := range w.deployments() {
		if len(namespaces) > 0 && d.Namespace != namespaces[0] || d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas > 0 {
			continue
		}
		d.Status = status(&d)
		w.Act(func() error {
			_, err := w.kube.AppsV1().Deployments(d.Namespace).UpdateStatus(w.t.Context(), &d, metav1.UpdateOptions{})
			return err
		})
	}
	w.Wait(time.Second)
}

// held counts the Websites by UpgradeHeld.
func (w *world) held() map[string]int {
	w.t.Helper()
	var list *webappv1.WebsiteList
	w.Act(func() (err error) {
		list, err = w.client.WebappV1().Websites("").List(w.t.Context(), metav1.ListOptions{})
		return err
	})
	counts := map[string]int{}
	for _, item := range list.Items {
		if c := meta.FindStatusCondition(item.Status.Conditions, apimeta.ConditionUpgradeHeld); c != nil {
			counts[c.Reason]++
		}
	}
	return counts
}

func total(by map[string]int) (sum int) {
	for _, n := range by {
		sum += n
	}
	return sum
}

// TestNewerTemplateIsRolledOut: a newer operator changes ten Websites at a time, also after a restart
// in the middle, until all have its template.
func TestNewerTemplateIsRolledOut(t *testing.T) {
	fleet(t, func(w *world) {
		w.upgrade(mirror)
		expect.Equal(t, "Deployments with the newer image", 10, total(w.mirrored()))
		expect.Equal(t, "UpgradeHeld", map[string]int{"RolloutActive": 10, "RolloutQueued": 20}, w.held())
		expect.Equal(t, "counts", controller.RolloutCounts{Active: 10, Queued: 20}, w.rollout())

		w.upgrade(mirror)
		expect.Equal(t, "Deployments with the newer image after a restart", 10, total(w.mirrored()))

		for _, want := range []int{20, 30, 30} {
			w.rollOut(controllertest.RolledOut)
			expect.Equal(t, "Deployments with the newer image", want, total(w.mirrored()))
		}
		w.Wait(time.Minute)
		expect.Equal(t, "UpgradeHeld at the end", map[string]int{}, w.held())
		expect.Equal(t, "counts at the end", controller.RolloutCounts{}, w.rollout())
	})
}

// TestFirstUpgradeIsRolledOut: the statuses of an earlier version lack the fields for the rollout.
func TestFirstUpgradeIsRolledOut(t *testing.T) {
	fleet(t, func(w *world) {
		w.Stop()
		w.Act(func() error {
			list, err := w.client.WebappV1().Websites("").List(w.t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, item := range list.Items {
				for i := range item.Status.Children.Applied {
					item.Status.Children.Applied[i].Template, item.Status.Children.Applied[i].Owner = "", ""
				}
				if _, err := w.client.WebappV1().Websites(item.Namespace).UpdateStatus(w.t.Context(), &item, metav1.UpdateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
		w.upgrade(mirror)
		expect.Equal(t, "Deployments with the newer image", 10, total(w.mirrored()))
		expect.Equal(t, "UpgradeHeld", map[string]int{"RolloutActive": 10, "RolloutQueued": 20}, w.held())
	})
}

// TestFailuresHaltTemplates: failures in one namespace halt the rollout there, also after a restart,
// until the pods are healthy.
func TestFailuresHaltTemplates(t *testing.T) {
	fleet(t, func(w *world) {
		w.upgrade(mirror)
		// A namespace begins with as many Websites as ask first, and a failure leaves its place to another Website.
		for range 10 {
			if w.held()["RolloutHalted"] > 0 {
				break
			}
			w.rollOut(controllertest.RolledOut, "ns1")
			w.rollOut(controllertest.RolledOut, "ns2")
			w.rollOut(failed, "ns0")
		}
		w.rollOut(failed, "ns0")
		begun := w.mirrored()["ns0"]
		if begun < 3 || begun > 7 {
			t.Errorf("%d Websites of the namespace have begun", begun)
		}
		for range 5 {
			w.rollOut(controllertest.RolledOut, "ns1")
			w.rollOut(controllertest.RolledOut, "ns2")
			w.Wait(time.Minute)
		}
		expect.Equal(t, "Deployments with the newer image", map[string]int{"ns0": begun, "ns1": 10, "ns2": 10}, w.mirrored())
		expect.Equal(t, "UpgradeHeld", map[string]int{"RolloutFailed": begun, "RolloutHalted": 10 - begun}, w.held())

		w.upgrade(mirror)
		expect.Equal(t, "Deployments with the newer image after a restart", begun, w.mirrored()["ns0"])
		for range 3 {
			w.rollOut(controllertest.RolledOut)
			w.Wait(time.Minute)
		}
		expect.Equal(t, "Deployments with the newer image after the recovery", 30, total(w.mirrored()))
	})
}

// TestOlderOperatorIsRolledOut: the operator's own rollback is such a change, too. Objects that have
// not been changed yet stay as they are.
func TestOlderOperatorIsRolledOut(t *testing.T) {
	fleet(t, func(w *world) {
		w.upgrade(mirror)
		w.rollOut(controllertest.RolledOut)
		w.upgrade("")
		w.rollOut(controllertest.RolledOut)
		w.rollOut(controllertest.RolledOut)
		w.Wait(time.Minute)
		expect.Equal(t, "Deployments with the image of the mirror", 0, total(w.mirrored()))
		expect.Equal(t, "UpgradeHeld", map[string]int{}, w.held())
	})
}

// TestChangeTakesNewerTemplate: a change of the Website, and the annotation, do not wait for a turn.
// A pause frees the turn.
func TestChangeTakesNewerTemplate(t *testing.T) {
	changes := map[string]func(*webappv1.Website){
		"the spec":       func(web *webappv1.Website) { web.Spec.HTML = "<h1>two</h1>" },
		"the annotation": func(web *webappv1.Website) { web.Annotations = map[string]string{apimeta.AnnotationForceAt: "now"} },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			fleet(t, func(w *world) {
				w.upgrade(mirror)
				for i := range 30 {
					w.Act(func() error {
						sites := w.client.WebappV1().Websites(namespaceOf(i))
						found, err := sites.Get(w.t.Context(), fmt.Sprint("web", i), metav1.GetOptions{})
						if err != nil || meta.FindStatusCondition(found.Status.Conditions, apimeta.ConditionUpgradeHeld).Reason != apimeta.ReasonRolloutQueued {
							return err
						}
						change(found)
						_, err = sites.Update(w.t.Context(), found, metav1.UpdateOptions{})
						return err
					})
				}
				w.Wait(time.Second)
				expect.Equal(t, "Deployments with the newer image", 30, total(w.mirrored()))
				expect.Equal(t, "counts", controller.RolloutCounts{Active: 10}, w.rollout())
			})
		})
	}
}
