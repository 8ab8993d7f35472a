// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func TestSummarize(t *testing.T) {
	is := func(kind string, s status.Status, message string) helm.ObjectHealth {
		return helm.ObjectHealth{Object: object(kind, "a"), Health: helm.Health{Status: s, Message: message}}
	}
	workload := func(s status.Status, replicas, ready int32, selector string) helm.ObjectHealth {
		health := is("Deployment", s, "")
		health.Replicas, health.ReadyReplicas, health.Selector = replicas, ready, selector
		return health
	}
	tests := []struct {
		name    string
		objects []helm.ObjectHealth
		want    Summary
	}{
		{"no objects", nil, Summary{Healthy: true}},
		{
			"all current",
			[]helm.ObjectHealth{is("ConfigMap", status.CurrentStatus, ""), workload(status.CurrentStatus, 2, 2, "app=a")},
			Summary{Healthy: true, Replicas: 2, ReadyReplicas: 2, Selector: "app=a"},
		},
		{
			"scaled to zero",
			[]helm.ObjectHealth{workload(status.CurrentStatus, 0, 0, "app=a")},
			Summary{Healthy: true, Selector: "app=a"},
		},
		{
			"two in progress",
			[]helm.ObjectHealth{is("Service", status.InProgressStatus, "no address"), is("Deployment", status.InProgressStatus, "1 of 2")},
			Summary{Message: "Service a: no address; Deployment a: 1 of 2"},
		},
		{
			"one failed, one in progress",
			[]helm.ObjectHealth{is("Deployment", status.FailedStatus, "deadline exceeded"), is("Service", status.InProgressStatus, "no address")},
			Summary{Failed: true, Message: "Deployment a: deadline exceeded; Service a: no address"},
		},
		{"terminating", []helm.ObjectHealth{is("Secret", status.TerminatingStatus, "scheduled for deletion")}, Summary{Message: "Secret a: scheduled for deletion"}},
		{"unknown", []helm.ObjectHealth{is("Job", status.UnknownStatus, "odd")}, Summary{Message: "Job a: odd"}},
		{
			"the first workload counts",
			[]helm.ObjectHealth{workload(status.CurrentStatus, 1, 1, "app=a"), workload(status.CurrentStatus, 3, 2, "app=b")},
			Summary{Healthy: true, Replicas: 1, ReadyReplicas: 1, Selector: "app=a"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "summary", test.want, Summarize(test.objects))
		})
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		name   string
		drifts []helm.Drift
		want   string
	}{
		{"none", nil, ""},
		{"one", []helm.Drift{{Object: object("Secret", "a"), Kind: helm.DriftMissing}}, "Secret a (missing)"},
		{"two", []helm.Drift{
			{Object: object("ConfigMap", "a"), Kind: helm.DriftChanged},
			{Object: object("Service", "b"), Kind: helm.DriftReplaced},
		}, "ConfigMap a (changed), Service b (replaced)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "names", test.want, Names(test.drifts))
		})
	}
}
