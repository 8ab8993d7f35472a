// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestSpecChangeIsRolledOut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field  string
		change func(*v1alpha1.DemoAppSpec)
		// done reports whether the objects have the changed fields.
		done func(apps.Objects) bool
		// rolls says that the change replaces the pods.
		rolls bool
	}{
		{
			field:  "replicaCount",
			change: func(spec *v1alpha1.DemoAppSpec) { spec.ReplicaCount = ptr.To[int32](2) },
			done:   func(o apps.Objects) bool { return *o.Deployment.Spec.Replicas == 2 },
		},
		{
			field:  "message",
			change: func(spec *v1alpha1.DemoAppSpec) { spec.Message = `<b>"Tea" & {{ cake }}</b>` },
			done: func(o apps.Objects) bool {
				return o.ConfigMap.Data["index.html"] ==
					"<html><body><h1>&lt;b&gt;&#34;Tea&#34; &amp; {{ cake }}&lt;/b&gt;</h1></body></html>"
			},
			rolls: true,
		},
		{
			field:  "service.type",
			change: func(spec *v1alpha1.DemoAppSpec) { spec.Service.Type = v1alpha1.ServiceTypeNodePort },
			done:   func(o apps.Objects) bool { return o.Service.Spec.Type == corev1.ServiceTypeNodePort },
		},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Create(apps.Named("web"))
			ns.AwaitReady("web")
			before := ns.Objects("web")

			ns.Change("web", test.change)
			app := ns.AwaitReady("web")

			if reason := apps.UpgradeReason(app); apps.Revision(app) != 2 || reason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
				t.Errorf("revision %d because of %s", apps.Revision(app), reason)
			}
			if !apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, releasev1alpha1.ReasonUpgradeSucceeded) {
				t.Errorf("Deployed is %+v", apps.Condition(app, releasev1alpha1.ConditionDeployed))
			}
			after := ns.Objects("web")
			if !test.done(after) {
				t.Errorf("not in the objects: %+v", after)
			}
			if rolled := !sameTemplate(before, after); rolled != test.rolls {
				t.Errorf("makes new pods: %t, want %t", rolled, test.rolls)
			}
			for kind, object := range after.All() {
				if object.GetUID() != before.All()[kind].GetUID() {
					t.Errorf("%s was made anew", kind)
				}
			}
			assertRecords(t, ns, "web v1 superseded", "web v2 deployed")
		})
	}
}

// sameTemplate reports whether a Deployment's pod template is unchanged.
func sameTemplate(before, after apps.Objects) bool {
	return apiequality.Semantic.DeepEqual(before.Deployment.Spec.Template, after.Deployment.Spec.Template)
}

func TestURLHasPort(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.Named("web")
	web.Spec.Service.Port = 8088
	ns.Create(web)
	if got, want := ns.AwaitReady("web").Status.URL, "http://web."+ns.Name+".svc:8088"; got != want {
		t.Errorf("url is %q, want %q", got, want)
	}
}

func TestLastOfManyChangesIsDeployed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	for i := range 20 {
		ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprintf("Message %d", i) })
	}
	app := ns.AwaitReady("web")
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; !strings.Contains(got, "Message 19") {
		t.Errorf("index.html is %q", got)
	}
	records := ns.Records("web")
	if most := 10; len(records) > most {
		t.Errorf("%d revisions are kept, want at most %d", len(records), most)
	}
	if last := records[len(records)-1]; last.Status != "deployed" || int64(last.Revision) != apps.Revision(app) {
		t.Errorf("the last record is %v, deployed is revision %d", last, apps.Revision(app))
	}
}

// assertRecords asserts that a namespace has exactly these release records.
func assertRecords(t *testing.T, ns *apps.Namespace, want ...string) {
	t.Helper()
	got := make([]string, 0, len(want))
	for _, record := range ns.Records("") {
		got = append(got, record.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("release records (-want +got):\n%s", diff)
	}
}
