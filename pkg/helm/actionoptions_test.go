// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestDisableHooks disables the hooks of one action, and runs the hooks of the other actions.
func TestDisableHooks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		desired := made(t, map[string]string{
			"templates/a.yaml":    configMap("a", "{{ .Values.v }}"),
			"templates/hook.yaml": hook("hook", "pre-install,pre-upgrade,pre-rollback,post-rollback,pre-delete", 0, "hook-succeeded"),
		})
		desired.Values = map[string]any{"v": "1"}
		desired.Install.DisableHooks, desired.Upgrade.DisableHooks, desired.Uninstall.DisableHooks = true, true, true

		f.must(desired, ActionInstall, CauseNotInstalled)
		wantSteps(t, f, "install", "apply configmaps default/a")
		desired.Values = map[string]any{"v": "2"}
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		wantSteps(t, f, "upgrade", "apply configmaps default/a")
		synctest.Wait()
		if err := f.rollback(desired, 1); err != nil {
			t.Fatal(err)
		}
		wantSteps(t, f, "rollback", "apply configmaps default/a")
		f.uninstall(desired)
		wantSteps(t, f, "uninstall", "delete configmaps default/a")

		desired.Upgrade.DisableHooks, desired.Install.DisableHooks, f.baseline = true, false, Baseline{}
		f.must(desired, ActionInstall, CauseNotInstalled)
		wantSteps(t, f, "install with hooks", "apply jobs default/hook", "delete jobs default/hook", "apply configmaps default/a")
	})
}

// TestDisabledHooksStillHaveScope: a hook that does not run now may run later.
func TestDisabledHooksStillHaveScope(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{
			"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other, annotations: {helm.sh/hook: pre-delete}}\n",
		})
		desired.Scope, desired.Install.DisableHooks = ScopeNamespace, true

		_, err := f.reconcile(desired)

		_ = wantError[*OutOfScopeError](t, err)
	})
}

func TestDescription(t *testing.T) {
	long := strings.Repeat("ü", MaxDescription)
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "{{ .Values.v }}")})
		desired.Values = map[string]any{"v": "1"}
		desired.Install.Description, desired.Upgrade.Description = "requested by Ada", long

		f.must(desired, ActionInstall, CauseNotInstalled)
		if got := f.record(desired).Info.Description; got != "requested by Ada" {
			t.Errorf("description is %q", got)
		}
		desired.Values = map[string]any{"v": "2"}
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		wantCut(t, f.record(desired).Info.Description, MaxDescription)
		synctest.Wait()
		if err := f.rollback(desired, 1); err != nil {
			t.Fatal(err)
		}
		wantCut(t, f.record(desired).Info.Description, 256)
		f.must(desired, ActionNone, CauseNone)
	})
}

func wantCut(t *testing.T, description string, limit int) {
	t.Helper()
	if len(description) > limit || len(description) < limit-4 || !strings.HasSuffix(description, "ü...") || !utf8.ValidString(description) {
		t.Errorf("description has %d bytes and ends in %q, want at most %d", len(description), description[max(0, len(description)-8):], limit)
	}
}

// TestOptionsAreNoInputs: options do not cause an upgrade.
func TestOptionsAreNoInputs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		options := ActionOptions{DisableHooks: true, Description: "x"}
		desired.Install, desired.Upgrade, desired.Uninstall = options, options, options
		desired.ServiceAccount, desired.ForceReplace, desired.AwaitRemoval = "deployer", true, true

		f.must(desired, ActionNone, CauseNone)
	})
}

// TestManifest returns the text of verified records only.
func TestManifest(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "{{ .Values.v }}")})
		desired.Values = map[string]any{"v": "first"}
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.TakeRequests()

		cached, err := f.engine.Manifest(t.Context(), desired, f.baseline, 1)
		if err != nil || !strings.Contains(cached, "first") {
			t.Errorf("manifest is %q (%v)", cached, err)
		}
		wantRequests(t, f)
		f.restart()
		f.TakeRequests()
		read, err := f.engine.Manifest(t.Context(), desired, f.baseline, 1)
		if err != nil || read != cached {
			t.Errorf("manifest is %q (%v), want %q", read, err, cached)
		}
		wantRequests(t, f, "get secrets default/sh.helm.release.v1.web.v1")
		if _, err := f.engine.Manifest(t.Context(), desired, f.baseline, 2); err == nil {
			t.Error("no error for a revision that does not exist")
		}
		f.Edit("Secret", "default/sh.helm.release.v1.web.v1", "kubectl", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"owner": "helm", "name": "web", "status": "deployed", "version": "1", record.SaltLabel: "00"})
		})
		synctest.Wait()
		if text, err := f.engine.Manifest(t.Context(), desired, f.baseline, 1); err == nil || text != "" {
			t.Errorf("manifest of a changed record is %q (%v), want an error", text, err)
		}
	})
}
