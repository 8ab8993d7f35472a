// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

func TestIsFinal(t *testing.T) {
	plain := errors.New("no")
	render := &RenderError{Chart: "web", Err: plain}
	unserved := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}}
	tests := map[string]struct {
		err                 error
		final, capabilities bool
	}{
		"a template":                       {err: render, final: true},
		"a template, wrapped":              {err: fmt.Errorf("upgrade: %w", render), final: true},
		"a template that looked up":        {err: &ClusterReadError{Err: render}},
		"a template that read kinds":       {err: &ClusterReadError{Err: render, Capabilities: true}, capabilities: true},
		"values":                           {err: fmt.Errorf("%w: x", chart.ErrInvalidValues), final: true},
		"a chart":                          {err: fmt.Errorf("%w: x", chart.ErrInvalid), final: true},
		"an object elsewhere":              {err: &OutOfScopeError{}, final: true},
		"an object elsewhere, looked up":   {err: &ClusterReadError{Err: &OutOfScopeError{}}},
		"a large record":                   {err: &ReleaseTooLargeError{Err: plain}, final: true},
		"an invalid account":               {err: ErrInvalidServiceAccount, final: true},
		"a hook":                           {err: &RevisionError{Err: &HookError{Err: plain}}, final: true},
		"a hook of a chart that looked up": {err: &ClusterReadError{Err: &HookError{Err: plain}}, final: true},
		"a refused object":                 {err: &RefusedError{Err: apierrors.NewBadRequest("policy")}},
		"refused and failed":               {err: errors.Join(render, &RefusedError{Err: plain})},
		"an object of another owner":       {err: &OwnershipConflictError{}},
		"a quota":                          {err: apierrors.NewForbidden(schema.GroupResource{}, "a", plain)},
		"a kind that is not served":        {err: fmt.Errorf("x: %w", unserved), capabilities: true},
		"a file of a kind that is not any": {err: &RenderError{Err: unserved}, capabilities: true},
		"any other":                        {err: plain},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsFinal(test.err); got != test.final {
				t.Errorf("final is %t", got)
			}
			if got := DependsOnCapabilities(test.err); got != test.capabilities {
				t.Errorf("depends on capabilities: %t", got)
			}
		})
	}
}

// TestFailedRenderingIsFinalUnlessItReadTheCluster: an install and an upgrade report whether the
// inputs alone decide that the chart does not render.
func TestFailedRenderingIsFinalUnlessItReadTheCluster(t *testing.T) {
	tests := map[string]struct {
		template, chart string
		values          map[string]any
		final           bool
	}{
		"nothing":                {template: `{{ fail "no" }}`, final: true},
		"values":                 {template: `{{ required "set it" .Values.missing }}`, final: true},
		"an object":              {template: `{{ if not (lookup "v1" "Secret" .Release.Namespace "s") }}{{ fail "no" }}{{ end }}`},
		"a list":                 {template: `{{ if not (lookup "v1" "Service" .Release.Namespace "").items }}{{ fail "no" }}{{ end }}`},
		"a kind not served":      {template: `{{ if not (lookup "example.com/v1" "Widget" .Release.Namespace "w") }}{{ fail "no" }}{{ end }}`},
		"a kind":                 {template: `{{ if not (.Capabilities.APIVersions.Has "example.com/v1/Widget") }}{{ fail "no" }}{{ end }}`},
		"the version":            {template: `{{ if semverCompare "<99" .Capabilities.KubeVersion.Version }}{{ fail "no" }}{{ end }}`},
		"a kind by a value":      {template: `{{ fail (tpl .Values.text .) }}`, values: map[string]any{"text": "{{ .Capabilities.KubeVersion }}"}},
		"a version of the chart": {chart: "kubeVersion: \">=99.0.0\"\n"},
		"a namespace that was looked up": {template: "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n" +
			`  namespace: {{ (lookup "v1" "Secret" .Release.Namespace "s").metadata | default "elsewhere" }}`},
		"a namespace": {template: "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n  namespace: elsewhere\n", final: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				good := made(t, map[string]string{"templates/configmap.yaml": configMap("config", "x")})
				good.Scope = ScopeNamespace
				bad := good
				bad.Chart = testChart(t, map[string]string{
					"Chart.yaml":          "apiVersion: v2\nname: made\nversion: 1.0.0\n" + test.chart,
					"templates/bad.yaml":  test.template,
					"templates/good.yaml": configMap("config", "x"),
				})
				bad.Values = test.values
				_, install := f.reconcile(bad)
				f.must(good, ActionInstall, CauseNotInstalled)
				_, upgrade := f.reconcile(bad)
				for action, err := range map[string]error{"install": install, "upgrade": upgrade} {
					if err == nil || IsFinal(err) != test.final {
						t.Errorf("%s: error is %v, want it to be final: %t", action, err, test.final)
					}
					if !IsTerminal(err) {
						t.Errorf("%s: a quick retry cannot help: %v", action, err)
					}
				}
			})
		})
	}
}

// TestNewKindsAreReported: a release that failed for want of a kind hears of new kinds, also if
// discovery shows them late.
func TestNewKindsAreReported(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := made(t, nil).Key()
		before := f.engine.Capabilities(release)
		<-time.After(time.Minute)
		f.heard()
		f.Edit("CustomResourceDefinition", "a", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		if got := f.engine.Capabilities(release); got != before || before == "" {
			t.Errorf("capabilities are %q before discovery shows others, want %q", got, before)
		}
		<-time.After(time.Second)
		f.Serve(thingsResource, thingKind.Kind, true)
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := f.heard(); len(got) == 0 {
			t.Error("no change was reported")
		}
		if got := f.engine.Capabilities(release); got == before {
			t.Error("capabilities are the same with another kind")
		}
		f.engine.Forget(release)
		<-time.After(time.Minute)
		f.heard()
		f.Edit("CustomResourceDefinition", "b", "kubectl", func(*unstructured.Unstructured) {})
		<-time.After(time.Minute)
		if got := f.heard(); len(got) > 0 {
			t.Errorf("a release that was forgotten heard %s", got)
		}
	})
}

func TestHookRan(t *testing.T) {
	for name, test := range map[string]struct {
		status map[string]any
		want   bool
	}{
		"a Job without a pod":     {map[string]any{"ready": int64(0)}, false},
		"a Job with a pod":        {map[string]any{"active": int64(1)}, true},
		"a Job that failed":       {map[string]any{"failed": int64(1)}, true},
		"a Pod that was refused":  {nil, false},
		"a Pod that waits":        {map[string]any{"phase": "Pending"}, false},
		"a Pod that runs":         {map[string]any{"phase": "Running"}, true},
		"a Pod that has finished": {map[string]any{"phase": "Failed"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hookRan(&unstructured.Unstructured{Object: map[string]any{"status": test.status}}); got != test.want {
				t.Errorf("ran: %t", got)
			}
		})
	}
}
