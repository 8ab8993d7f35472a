// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestRecordOfAnotherRelease: the name and namespace of the Secret determine the release of a
// record, and not its content.
func TestRecordOfAnotherRelease(t *testing.T) {
	tests := map[string]func(*releasev1.Release){
		"namespace": func(rls *releasev1.Release) { rls.Namespace = "kube-system" },
		"name":      func(rls *releasev1.Release) { rls.Name = "other" },
		"revision":  func(rls *releasev1.Release) { rls.Version = 7 },
		"no info":   func(rls *releasev1.Release) { rls.Info = nil },
		"null hook": func(rls *releasev1.Release) { rls.Hooks = []*releasev1.Hook{nil} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
				f.forge(1, change)
				f.restart()

				f.must(owned(t, map[string]any{"replicaCount": 2}), ActionUpgrade, CauseInputsChanged)

				assertNothingForged(t, f)
				wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
				if rls := f.record(desired); rls.Namespace != "default" || rls.Name != "web" || rls.Version != 2 {
					t.Errorf("the record is that of %s/%s v%d", rls.Namespace, rls.Name, rls.Version)
				}
			})
		})
	}
}

// TestUnverifiedNamesDoNotBlockUninstall: names in a changed record that cannot be read, or do not
// belong to the release, do not block its uninstall.
func TestUnverifiedNamesDoNotBlockUninstall(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		f.Edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
		f.forge(1, func(rls *releasev1.Release) {
			for _, name := range []string{`""`, `"a/b"`, `".."`, strings.Repeat("x", 300), "theirs", "none"} {
				rls.Manifest += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
			}
			rls.Manifest += "---\napiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: a}\n"
		})
		f.restart()

		f.uninstall(desired)

		if diff := cmp.Diff([]string{"ConfigMap default/theirs"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestMarkedRevisionStaysVerified: to mark a revision as failed does not take from its
// record that it may be relied on.
func TestMarkedRevisionStaysVerified(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		f.must(desired, ActionNone, CauseNone)

		if err := f.engine.MarkFailed(t.Context(), desired, f.baseline, 1, "Not healthy in time"); err != nil {
			t.Fatal(err)
		}

		f.must(desired, ActionNone, CauseNone)
		f.restart()
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestUnverifiedRecordsAreBounded: however many records are forged, an operation keeps no
// more of them than of one.
func TestUnverifiedRecordsAreBounded(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		for revision := 2; revision <= 6; revision++ {
			f.foreign(desired, revision, common.StatusFailed, func(rls *releasev1.Release) {
				rls.Config = map[string]any{"numbers": make([]int, record.MaxUnverifiedNodes-8_000)}
			})
		}
		synctest.Wait()
		s := f.open(desired)

		read := 0
		for revision := 2; revision <= 6; revision++ {
			rls, _, err := s.read(revision)
			if err != nil {
				t.Fatal(err)
			}
			if rls != nil {
				read++
			}
		}

		if read != 1 {
			t.Errorf("%d forged records are kept, want 1", read)
		}
		f.must(desired, ActionUpgrade, CauseReleaseChanged)
		assertNothingForged(t, f)
	})
}

// TestUndecodableRecords: an undecodable record is replaced, and the release can be uninstalled.
func TestUndecodableRecords(t *testing.T) {
	testUndecodable(t, map[string][]byte{
		"no base64": []byte("%"),
		"no gzip":   []byte(base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 8, 1, 2, 3})),
		"no JSON":   zipped(t, []byte("{")),
		"null":      zipped(t, []byte("null")),
	})
}

// TestRecordsBeyondLimits: a record that would take too much memory is replaced, too.
func TestRecordsBeyondLimits(t *testing.T) {
	testUndecodable(t, map[string][]byte{
		"a bomb":         zipped(t, make([]byte, 100<<20)),
		"too many nodes": zipped(t, []byte(`{"config":{"a":[`+strings.Repeat("0,", 1<<20)+`0]}}`)),
	})
}

func testUndecodable(t *testing.T, records map[string][]byte) {
	t.Helper()
	for name, content := range records {
		for _, uninstalls := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
					f.Edit("Secret", "default/"+record.SecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
						setRecord(t, secret, content)
					})
					f.restart()
					if uninstalls {
						f.uninstall(desired)
						wantRecords(t, f)
						return
					}
					f.Remove("Service", "default/web")
					synctest.Wait()
					if _, err := f.reconcile(desired); err == nil {
						t.Error("repaired from a record that cannot be read")
					}
					f.must(desired, ActionInstall, CauseUnverified)
					wantRecords(t, f, "web.v1 deployed")
					assertNothingForged(t, f)
				})
			})
		}
	}
}
