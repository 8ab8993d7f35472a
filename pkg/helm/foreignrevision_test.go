// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// foreign lets another client, such as the helm CLI, write a record: it goes by
// Helm's own driver, past the engine.
func (f *fixture) foreign(desired Release, revision int, recordStatus common.Status, change func(*releasev1.Release)) {
	f.t.Helper()
	config := f.config()
	client, err := kubernetes.NewForConfigAndClient(config.RESTConfig, config.HTTPClient)
	if err != nil {
		f.t.Fatal(err)
	}
	releases := storage.Init(driver.NewSecrets(client.CoreV1().Secrets(desired.Namespace)))
	rls := *f.record(desired)
	info := *rls.Info
	rls.Info, rls.Version, rls.Labels = &info, revision, maps.Clone(rls.Labels)
	rls.Info.Status = recordStatus
	if change != nil {
		change(&rls)
	}
	if err := releases.Create(&rls); err != nil {
		f.t.Fatal(err)
	}
	f.TakeRequests()
}

// TestForeignRevision: a revision of another client is detected, and an upgrade restores the
// desired state.
func TestForeignRevision(t *testing.T) {
	tests := map[string]common.Status{
		"deployed": common.StatusDeployed,
		"failed":   common.StatusFailed,
	}
	for name, recordStatus := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				synctest.Wait()
				// Helm copies the labels: only the revision shows that the engine did not make the
				// record.
				f.foreign(desired, 2, recordStatus, func(rls *releasev1.Release) {
					rls.Manifest = strings.ReplaceAll(rls.Manifest, "replicas: 1", "replicas: 7")
				})
				f.Edit("Deployment", "default/web", "helm-cli", func(object *unstructured.Unstructured) {
					object.Object["spec"].(map[string]any)["replicas"] = int64(7)
				})
				if heard := f.heard(); !slices.Contains(heard, "record default/web") {
					t.Errorf("heard %s, want a changed record", heard)
				}
				f.must(desired, ActionUpgrade, CauseReleaseChanged)
				replicas, _, err := unstructured.NestedInt64(f.Object("Deployment", "default/web").Object, "spec", "replicas")
				if err != nil || replicas != 1 {
					t.Errorf("replicas = %d, %v, want 1", replicas, err)
				}
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestForeignRevisionDuringUninstall: a revision that another client records during an uninstall
// does not take the place of the revision whose objects are removed. Its own objects are removed
// by the next attempt.
func TestForeignRevisionDuringUninstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/hook.yaml": hook("hook", "pre-delete", 0, "hook-succeeded")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		ctx := WithWait(t.Context(), func(string) (func(), error) {
			f.foreign(desired, 2, common.StatusDeployed, nil)
			synctest.Wait()
			f.With(func() { f.React = jobsEnd })
			f.Edit("Job", "default/hook", "job-controller", func(job *unstructured.Unstructured) { jobsEnd(job) })
			return func() {}, nil
		})

		_, err := f.engine.Uninstall(ctx, desired, f.baseline)

		if err == nil || IsTerminal(err) || !strings.Contains(err.Error(), "recorded revision 2 of release default/web during its uninstall") {
			t.Errorf("error is %v, want a transient one about revision 2", err)
		}
		wantRecords(t, f, "web.v1 uninstalling", "web.v2 deployed")
		if _, err := f.engine.Uninstall(t.Context(), desired, f.baseline); err != nil {
			t.Error(err)
		}
		wantRecords(t, f)
		if names := f.Names(); len(names) > 0 {
			t.Errorf("objects are left: %v", names)
		}
	})
}

// TestForeignPending: the operation of another client is waited for, until it
// counts as abandoned.
func TestForeignPending(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.foreign(desired, 2, common.StatusPendingUpgrade, nil)
		synctest.Wait()
		decision, err := f.reconcile(desired)
		busy := wantError[*BusyError](t, err)
		if decision.Action != ActionWait || busy.RetryAfter <= 0 || busy.RetryAfter > DefaultTimeout || IsTerminal(err) {
			t.Errorf("%s: %v, again after %s", decision.Action, err, busy.RetryAfter)
		}
		wantRequests(t, f)
		<-time.After(busy.RetryAfter)
		f.must(desired, ActionUpgrade, CauseInterrupted)
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestForeignPendingUnseen: an operation of another client that began after the
// decision is no fault of the chart.
func TestForeignPendingUnseen(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		changed := demo(t, map[string]any{"replicaCount": 2})
		decision := f.decide(changed)
		f.HoldWatches(true)
		f.foreign(desired, 2, common.StatusPendingUpgrade, nil)
		for _, seen := range []bool{false, true} {
			f.HoldWatches(!seen)
			synctest.Wait()
			_, err := f.engine.Execute(t.Context(), changed, decision, f.baseline)
			_ = wantError[*BusyError](t, err)
		}
		wantRecords(t, f, "web.v1 deployed", "web.v2 pending-upgrade")
	})
}

// TestForeignUninstall: a release that another client uninstalled is installed again, with and
// without its history.
func TestForeignUninstall(t *testing.T) {
	t.Run("history kept", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.foreign(desired, 2, common.StatusUninstalled, nil)
			for _, kind := range []string{"ConfigMap", "Secret", "Service", "Deployment"} {
				f.Remove(kind, "default/web")
			}
			synctest.Wait()
			f.must(desired, ActionInstall, CauseReleaseChanged)
			if got := f.Names(); len(got) != 4 {
				t.Errorf("objects %s, want 4", got)
			}
			f.must(desired, ActionNone, CauseNone)
		})
	})
	t.Run("uninstall stopped halfway", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.foreign(desired, 2, common.StatusUninstalling, nil)
			f.Remove("Service", "default/web")
			synctest.Wait()
			_, err := f.reconcile(desired)
			<-time.After(wantError[*BusyError](t, err).RetryAfter)
			f.must(desired, ActionInstall, CauseReleaseChanged)
			wantRecords(t, f, "web.v1 deployed")
			if got := f.Names(); len(got) != 4 {
				t.Errorf("objects %s, want 4", got)
			}
			f.must(desired, ActionNone, CauseNone)
		})
	})
	t.Run("records deleted", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.heard()
			f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
			if diff := cmp.Diff([]string{"record default/web"}, f.heard()); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
			f.must(desired, ActionInstall, CauseNotInstalled)
			wantRecords(t, f, "web.v1 deployed")
			f.must(desired, ActionNone, CauseNone)
		})
	})
}

// TestClientSideRelease takes over a release as Helm 3 left it: applied on the
// client's side, so that its fields belong to updates.
func TestClientSideRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		two := made(t, map[string]string{"templates/a.yaml": configMap("a", "one") + "  gone: later\n"})
		f.must(two, ActionInstall, CauseNotInstalled)
		f.foreign(two, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			rls.ApplyMethod = string(releasev1.ApplyMethodClientSideApply)
		})
		was := f.Object("ConfigMap", "default/a")
		f.Remove("ConfigMap", "default/a")
		f.Edit("ConfigMap", "default/a", "helm", func(object *unstructured.Unstructured) {
			object.SetLabels(was.GetLabels())
			object.SetAnnotations(was.GetAnnotations())
			object.Object["data"] = was.Object["data"]
		})
		synctest.Wait()
		one := made(t, map[string]string{"templates/a.yaml": configMap("a", "two")})
		f.must(one, ActionUpgrade, CauseReleaseChanged)
		data, _, err := unstructured.NestedStringMap(f.Object("ConfigMap", "default/a").Object, "data")
		if diff := cmp.Diff(map[string]string{"key": "two"}, data); diff != "" || err != nil {
			t.Errorf("data, %v (-want +got):\n%s", err, diff)
		}
		f.must(one, ActionNone, CauseNone)
	})
}
