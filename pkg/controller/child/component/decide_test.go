// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

var (
	ready       = child.Verdict{Health: kstatus.CurrentStatus, Reason: apimeta.ReasonHealthy, Message: "All 2 children are as desired and healthy"}
	progressing = child.Verdict{Health: kstatus.InProgressStatus, Reason: apimeta.ReasonProgressing, Message: "pods start"}
	unhealthy   = child.Verdict{Health: kstatus.FailedStatus, Reason: apimeta.ReasonUnhealthy, Message: "no progress"}
)

// started returns a component that has started.
func started(name string, verdict child.Verdict) part {
	p := waiting(name)
	p.started, p.verdict, p.Endpoint = true, verdict, name+":80"
	return p
}

// waiting returns a component that has not started.
func waiting(name string, after ...string) part {
	return part{Component: Component{
		Name: name, Field: "spec." + name, Endpoint: name + ":80", After: after,
		Advice: func([]child.Cause) string { return "check spec." + name + ".image" },
	}}
}

func TestStartable(t *testing.T) {
	tests := map[string]struct {
		parts []part
		want  []string
	}{
		"the first of all": {[]part{waiting("database"), waiting("cache"), waiting("backend")}, []string{"database"}},
		"none while the first is not ready": {
			[]part{started("database", progressing), waiting("cache"), waiting("backend")}, nil,
		},
		"none after a failure": {[]part{started("database", unhealthy), waiting("cache")}, nil},
		"the next when all before are ready": {
			[]part{started("database", ready), started("cache", ready), waiting("backend"), waiting("frontend")}, []string{"backend"},
		},
		"none while a component further before is not ready any more": {
			[]part{started("database", progressing), started("cache", ready), waiting("backend")}, nil,
		},
		"no component twice": {[]part{started("database", ready), started("cache", ready)}, nil},
		"a component that is switched on later": {
			[]part{started("database", ready), waiting("cache"), started("backend", ready)}, []string{"cache"},
		},
		"several after the same one": {
			[]part{started("frontend", ready), waiting("monitoring", "frontend"), waiting("ingress", "frontend")}, []string{"monitoring", "ingress"},
		},
		"one that does not wait for the component beside it": {
			[]part{started("frontend", ready), started("monitoring", unhealthy), waiting("ingress", "frontend")}, []string{"ingress"},
		},
		"after a component that is switched off": {[]part{waiting("backend", "cache")}, []string{"backend"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, i := range startable(tc.parts) {
				got = append(got, tc.parts[i].Name)
			}

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	got := statuses([]part{started("database", ready), started("cache", unhealthy), started("queue", progressing), waiting("backend"), waiting("frontend")})

	want := []childv1alpha1.ComponentStatus{
		{Name: "database", Ready: true, Reason: "Healthy", Endpoint: "database:80"},
		{Name: "cache", Reason: "Unhealthy", Message: "spec.cache: no progress: check spec.cache.image", Endpoint: "cache:80"},
		{Name: "queue", Reason: "Progressing", Message: "spec.queue: pods start", Endpoint: "queue:80"},
		{Name: "backend", Reason: "WaitingForComponent", Message: "Waits for cache: no progress"},
		{Name: "frontend", Reason: "WaitingForComponent", Message: "Waits for cache: no progress"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestComponentWaitsForWaitingComponent(t *testing.T) {
	got := statuses([]part{started("database", progressing), waiting("backend", "database"), waiting("frontend", "backend")})

	if want := "Waits for backend"; got[2].Message != want {
		t.Errorf("message is %q, want %q", got[2].Message, want)
	}
}

func TestSummarize(t *testing.T) {
	failure := child.Verdict{Health: kstatus.InProgressStatus, Reason: childv1alpha1.ReasonApplyFailed, Message: "the server is down"}
	tests := map[string]struct {
		all      child.Verdict
		parts    []part
		complete bool
		want     child.Verdict
	}{
		"all ready": {
			ready,
			[]part{started("database", ready), started("backend", ready)},
			false,
			child.Verdict{Health: kstatus.CurrentStatus, Reason: "Healthy", Message: "All 2 components are ready"},
		},
		"one starts": {
			progressing,
			[]part{started("database", ready), started("cache", progressing), waiting("backend"), waiting("frontend")},
			false,
			child.Verdict{
				Health: kstatus.InProgressStatus, Reason: "Progressing", Message: "spec.cache: pods start; not started yet: backend, frontend",
			},
		},
		"a failure comes before progress": {
			unhealthy,
			[]part{started("database", progressing), started("backend", unhealthy)},
			true,
			child.Verdict{Health: kstatus.FailedStatus, Reason: "Unhealthy", Message: "spec.backend: no progress: check spec.backend.image"},
		},
		"one is not ready any more": {
			progressing,
			[]part{started("database", progressing), started("backend", ready)},
			true,
			child.Verdict{Health: kstatus.InProgressStatus, Reason: "Degraded", Message: "spec.database: pods start"},
		},
		"an error that concerns no component": {
			failure, []part{started("database", ready)}, true, failure,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := summarize(tc.all, tc.parts, tc.complete)

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	some := child.State{Children: []*child.Observed{{}}}
	notReady := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason}, {Type: "Reconciling", Status: metav1.ConditionTrue}}
	}
	tests := map[string]struct {
		state      child.State
		conditions []metav1.Condition
		want       string
	}{
		"before the first pass": {child.State{}, nil, "Pending"},
		"nothing exists":        {child.State{}, notReady("WaitingForDeletion"), "Pending"},
		"starting":              {some, notReady("Progressing"), "Deploying"},
		"ready":                 {some, []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}, "Running"},
		"not ready any more":    {some, notReady("Degraded"), "Degraded"},
		"stalled": {some, []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse}, {Type: "Stalled", Status: metav1.ConditionTrue},
		}, "Failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (Outcome{State: tc.state}).Phase(tc.conditions); got != tc.want {
				t.Errorf("phase is %s, want %s", got, tc.want)
			}
		})
	}
}
