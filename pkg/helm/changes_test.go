// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
)

func TestChangedValuesAreNamedByPath(t *testing.T) {
	many := map[string]any{}
	names := map[string]bool{"image": true, "tag": true, "env": true, "list": true, "resources": true, strings.Repeat("n", 300): true}
	for i := range MaxChanges + 3 {
		key := fmt.Sprintf("v%02d", i)
		names[key], many[key] = true, i
	}
	type values = map[string]any
	tests := map[string]struct {
		before, after values
		want          Changes
	}{
		"nothing":                         {values{"image": values{"tag": "1"}}, values{"image": values{"tag": "1"}}, Changes{}},
		"numbers of Go and JSON":          {values{"tag": float64(1)}, values{"tag": int64(1)}, Changes{}},
		"a changed value":                 {values{"image": values{"tag": "1"}}, values{"image": values{"tag": "2"}}, Changes{Named: []string{"values.image.tag"}}},
		"an added and a removed value":    {values{"tag": "1"}, values{"image": "x"}, Changes{Named: []string{"values.image", "values.tag"}}},
		"a null removes a default":        {values{}, values{"tag": nil}, Changes{Named: []string{"values.tag"}}},
		"an object in place of a text":    {values{"image": "x"}, values{"image": values{"tag": "x"}}, Changes{Named: []string{"values.image"}}},
		"an item of a list":               {values{"list": []any{values{"tag": 1}}}, values{"list": []any{values{"tag": 2}}}, Changes{Named: []string{"values.list"}}},
		"a key that the chart lacks":      {values{}, values{"hunter2": 1}, Changes{Named: []string{"values"}}},
		"keys of a map of the chart":      {values{"env": values{"A": "1", "B": "1"}}, values{"env": values{"A": "2", "C": "1", "tag": 1}}, Changes{Named: []string{"values.env.tag", "values.env"}}},
		"equal keys that the chart lacks": {values{"env": values{"A": values{"b": int64(1)}}}, values{"env": values{"A": values{"b": 1.0}}}, Changes{}},
		"more than are named":             {nil, many, Changes{Named: strings.Fields("values.v00 values.v01 values.v02 values.v03 values.v04 values.v05 values.v06 values.v07 values.v08 values.v09"), More: 3}},
		"a long key":                      {nil, values{strings.Repeat("n", 300): 1}, Changes{Named: []string{"values." + strings.Repeat("n", 246) + "..."}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got Changes
			got.compare(names, nil, test.before, test.after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// changed executes the decision and returns the changes of the revision.
func (f *fixture) changed(desired Release, decision Decision) (Changes, error) {
	f.t.Helper()
	deployed, err := f.engine.Execute(f.t.Context(), desired, decision, f.baseline)
	var failed *RevisionError
	switch {
	case err == nil:
		f.baseline = deployed.Baseline()
		return deployed.Changes, nil
	case errors.As(err, &failed):
		return failed.Changes, err
	}
	return Changes{}, err
}

func (f *fixture) wantChanges(desired Release, decision Decision, want ...string) {
	f.t.Helper()
	got, err := f.changed(desired, decision)
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(Changes{Named: want}, got); diff != "" {
		f.t.Errorf("changes of %s (-want +got):\n%s", decision.Action, diff)
	}
}

func TestChangesOfRevision(t *testing.T) {
	const values = "message: a\nenv: {}\n"
	release := func(message, kept string) Release {
		desired := made(t, map[string]string{"values.yaml": values, "templates/a.yaml": configMap("a", "{{ .Values.message }}"), "templates/kept.yaml": configMap("kept", kept)})
		desired.Values = map[string]any{"message": message, "env": map[string]any{"hunter2": message}}
		return desired
	}
	bubble(t, func(t *testing.T, f *fixture) {
		f.wantChanges(release("1", "x"), f.decide(release("1", "x")))

		f.wantChanges(release("2", "x"), f.decide(release("2", "x")), "values.env", "values.message")
		wantNoRequest(t, f, "get secrets")

		f.wantChanges(release("2", "y"), f.decide(release("2", "y")), "chart")

		owned := release("2", "y")
		owner := demoOwner()
		owned.Owner, owned.Adopt = &owner, true
		f.wantChanges(owned, f.decide(owned), "owner")

		f.With(func() { f.Refuse = refuseBad })
		bad := owned
		bad.Values = map[string]any{"message": "bad"}
		for range 2 { // A retry replaces the failed revision, and is compared with the same one.
			got, err := f.changed(bad, f.decide(bad))
			_ = wantError[*RefusedError](t, err)
			if diff := cmp.Diff([]string{"values.env", "values.message"}, got.Named); diff != "" {
				t.Errorf("changes of a failed upgrade (-want +got):\n%s", diff)
			}
		}
		f.wantChanges(owned, Decision{Action: ActionRollback, To: 4}, "values.env", "values.message")
		f.wantChanges(owned, Decision{Action: ActionUpgrade, Cause: CauseRequested})
		f.wantChanges(owned, Decision{Action: ActionReapply})
		wantNoRequest(t, f, "get secrets")
	})
}

// TestChangesOfForeignRevision: the values of a revision that the helm command made are
// compared, too.
func TestChangesOfForeignRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.foreign(desired, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			rls.Config = map[string]any{"apiKey": "verysecret", "message": "other", "hunter2": "x"}
		})
		synctest.Wait()
		f.wantChanges(desired, f.decide(desired), "values.message", "values")
	})
}

// wantNoRequest expects that no request of the kind was sent.
func wantNoRequest(t *testing.T, f *fixture, unwanted string) {
	t.Helper()
	for _, request := range f.TakeRequests() {
		if strings.HasPrefix(request, unwanted) {
			t.Errorf("unexpected request %s", request)
		}
	}
}
