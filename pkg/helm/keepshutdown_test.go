// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// workloadChart is a chart with a Deployment whose pods have these fields.
func workloadChart(image, pod string) map[string]string {
	return map[string]string{"templates/deployment.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: %q%s`, image, pod)}
}

const (
	abrupt = "}]}\n"
	gentle = ", lifecycle: {preStop: {sleep: {seconds: 5}}}}], terminationGracePeriodSeconds: 35}\n"
)

// TestKeepShutdown: an upgrade that would change only how pods end does not restart them.
func TestKeepShutdown(t *testing.T) {
	tests := map[string]struct {
		keeps         bool
		before, after map[string]string
		requested     bool
		gentle        bool
	}{
		"only how pods end":                {true, workloadChart("web:1", abrupt), workloadChart("web:1", gentle), false, false},
		"back again":                       {true, workloadChart("web:1", gentle), workloadChart("web:1", abrupt), false, true},
		"another image, too":               {true, workloadChart("web:1", abrupt), workloadChart("web:2", gentle), false, true},
		"requested":                        {true, workloadChart("web:1", abrupt), workloadChart("web:1", gentle), true, true},
		"a release that keeps no shutdown": {false, workloadChart("web:1", abrupt), workloadChart("web:1", gentle), false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				owner := demoOwner()
				release := func(templates map[string]string) Release {
					desired := made(t, templates)
					desired.Owner, desired.KeepShutdown = &owner, test.keeps
					return desired
				}
				f.must(release(test.before), ActionInstall, CauseNotInstalled)
				after := release(test.after)
				if test.requested {
					f.decide(after)
					deployed, err := f.engine.Execute(t.Context(), after, Decision{Action: ActionUpgrade, Cause: CauseRequested}, f.baseline)
					if err != nil || deployed.Revision != 2 {
						t.Fatalf("deployed is %v, error is %v", deployed, err)
					}
				} else {
					f.must(after, ActionUpgrade, CauseInputsChanged)
					f.must(after, ActionNone, CauseNone)
				}

				live := f.Object("Deployment", "default/web")
				if _, found, _ := unstructured.NestedInt64(live.Object, "spec", "template", "spec", "terminationGracePeriodSeconds"); found != test.gentle {
					t.Errorf("the live pods end gently: %t, want %t", found, test.gentle)
				}
				recorded := f.record(after)
				if found := strings.Contains(recorded.Manifest, "preStop"); found != test.gentle || recorded.Version != 2 {
					t.Errorf("the pods of revision %d end gently: %t, want %t:\n%s", recorded.Version, found, test.gentle, recorded.Manifest)
				}
				if !strings.Contains(recorded.Manifest, string(owner.UID)) || !strings.Contains(recorded.Manifest, "# Source: ") {
					t.Errorf("the manifest lacks the owner or the names of templates:\n%s", recorded.Manifest)
				}
			})
		})
	}
}

// TestKeptShutdownIsNoDrift: the record equals the objects.
func TestKeptShutdownIsNoDrift(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, workloadChart("web:1", abrupt))
		desired.KeepShutdown = true
		f.must(desired, ActionInstall, CauseNotInstalled)
		newer := made(t, workloadChart("web:1", gentle))
		newer.KeepShutdown = true
		before := meant(f.Object("Deployment", "default/web"))
		f.must(newer, ActionUpgrade, CauseInputsChanged)
		f.stop()
		<-time.After(time.Minute)

		f.applyAs(FieldManager, "Deployment", change(int64(7), "spec", "replicas"))
		f.restart()
		f.must(newer, ActionRepair, CauseDrift)

		if diff := cmp.Diff(before, meant(f.Object("Deployment", "default/web"))); diff != "" {
			t.Errorf("after the repair (-as installed +got):\n%s", diff)
		}
	})
}
