// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestNewerChartIsRolledOut(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	ns.Create(apps.Named("web"))
	before := ns.AwaitReady("web")
	operator.Stop()

	cluster.StartOperatorBinary(t.Context(), t, shared, newerOperator(t))
	app := ns.Await("web", "deployed with the newer chart", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && app.Status.DeployedRelease.ChartVersion == newerVersion
	})
	if apps.Revision(app) != 2 || app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonChartChanged {
		t.Errorf("revision %d because of %s", apps.Revision(app), app.Status.LastUpgradeReason)
	}
	if app.Generation != before.Generation {
		t.Errorf("the spec was changed: generation %d", app.Generation)
	}
	if got := ns.Objects("web").Service.Labels["helm.sh/chart"]; got != "demo-app-"+newerVersion {
		t.Errorf("the Service was made by chart %s", got)
	}
	ns.AssertRecords([]string{"web"}, "v1 superseded", "v2 deployed")
}
