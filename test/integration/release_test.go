// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestHistoryIsLimited asserts that old revisions are removed. Its 13 upgrades follow one another,
// since more than ten revisions are needed.
func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.WithoutPods("web")
	ns.Create(web)
	const revisions, kept = 13, 10
	for revision := 1; revision <= revisions; revision++ {
		ns.Await("web", fmt.Sprintf("at revision %d", revision), func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Revision(app) == int64(revision)
		})
		if revision < revisions {
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprintf("Message %d", revision) })
		}
	}
	records := ns.Records("web")
	if len(records) != kept || records[0].Revision != revisions-kept+1 || records[kept-1].Status != "deployed" {
		t.Errorf("records %v, want the last %d", records, kept)
	}
}
