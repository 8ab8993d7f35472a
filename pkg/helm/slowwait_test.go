// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// waits is a caller that records waits.
type waits struct {
	begun, ended int
	refusal      error
}

func (w *waits) context(ctx context.Context) context.Context {
	return WithWait(ctx, func(string) (func(), error) {
		if w.refusal != nil {
			return nil, w.refusal
		}
		w.begun++
		return func() { w.ended++ }, nil
	})
}

// install makes the first revision, and records waits.
func (f *fixture) install(desired Release, w *waits) error {
	_, err := f.engine.Execute(w.context(f.t.Context()), desired, Decision{Action: ActionInstall, Cause: CauseNotInstalled}, Baseline{})
	return err
}

func TestWaitOfHookIsBounded(t *testing.T) {
	tests := map[string]func(f *fixture){
		"hook never ends": func(*fixture) {},
		"deletion of an earlier hook never ends": func(f *fixture) {
			f.Edit("Job", "default/pre", "kubectl", func(object *unstructured.Unstructured) {
				object.SetFinalizers([]string{"example.com/never"})
				object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
			})
			f.With(func() { f.React = jobsEnd })
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				prepare(f)
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0)})
				desired.Timeout = 24 * time.Hour
				caller, started := &waits{}, time.Now()

				err := f.install(desired, caller)

				if err == nil || IsTerminal(err) {
					t.Errorf("error is %v, want one that is not terminal", err)
				}
				if took := time.Since(started); took < MaxTimeout || took > MaxTimeout+recordGrace {
					t.Errorf("gave up after %s, want %s", took, MaxTimeout)
				}
				if *caller != (waits{begun: 1, ended: 1}) {
					t.Errorf("the caller was told of %+v, want one wait that ended", *caller)
				}
			})
		})
	}
}

func TestEndedHookCausesNoWait(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0)})
		caller := &waits{}

		if err := f.install(desired, caller); err != nil {
			t.Fatal(err)
		}

		if *caller != (waits{}) {
			t.Errorf("the caller was told of %+v", *caller)
		}
	})
}

func TestRefusedWaitFailsOperation(t *testing.T) {
	for _, event := range []string{"pre-install", "post-install"} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/slow.yaml": hook("slow", event, 0)})
				busy, started := errors.New("too many"), time.Now()

				err := f.install(desired, &waits{refusal: busy})

				if !errors.Is(err, busy) || IsTerminal(err) {
					t.Errorf("error is %v, want the refusal, not terminal", err)
				}
				if took := time.Since(started); took > time.Second {
					t.Errorf("it took %s", took)
				}
				wantRecords(t, f, "web.v1 failed")
				f.With(func() { f.React = jobsEnd })
				f.must(desired, ActionInstall, CauseFailed)
				wantRecords(t, f, "web.v1 deployed")
			})
		})
	}
}

func TestUninstallReportsWait(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/slow.yaml": hook("slow", "pre-delete", 0)})
		f.must(desired, ActionInstall, CauseNotInstalled)
		busy := errors.New("too many")
		ctx := (&waits{refusal: busy}).context(t.Context())

		_, err := f.engine.Uninstall(ctx, desired, f.baseline)

		if !errors.Is(err, busy) {
			t.Errorf("error is %v, want the refusal", err)
		}
		f.With(func() { f.React = jobsEnd })
		f.uninstall(desired)
		wantRecords(t, f)
	})
}
