// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

func suspension() step {
	const app = "da/demoapp-sample"
	return step{
		title: "A DemoApp is suspended",
		note:  "Nothing is changed until a user resumes the DemoApp. Ready says that a change waits, and why.",
		acts: []act{
			{command: patchApp("demoapp-sample", `{"spec":{"suspend":true,"message":"Later"}}`)},
			waitFor(app, "condition=Suspended"),
			{command: said(app, "Ready"), want: prints("A change waits until spec.suspend is false")},
			{command: patchApp("demoapp-sample", `{"spec":{"suspend":false}}`)},
			waitFor(app, revision(3)),
			waitFor(app, "condition=Ready"),
		},
	}
}

func request() step {
	const app = "da/demoapp-sample"
	return step{
		title: "A user requests a reconcile",
		note: "The one annotation asks for a full pass, the other for an upgrade although nothing has changed. The status " +
			"repeats the value when it is done.",
		acts: []act{
			{command: in("annotate da demoapp-sample demo.example.com/requested-at=first demo.example.com/force-at=first")},
			waitFor(app, "jsonpath='{.status.lastHandledForceAt}'=first"),
			waitFor(app, revision(4)),
			waitFor(app, "condition=Ready"),
			{command: field(app, ".status.lastUpgradeReason"), want: prints("UserRequested")},
		},
	}
}

// window uses an upgrade window that is half a day away.
func window(now time.Time) step {
	const app = "da/demoapp-sample"
	opens := now.UTC().Add(12 * time.Hour)
	return step{
		title: "A change waits for its window",
		note: "Upgrades are rolled out at certain times only. Drift would be corrected meanwhile, and a change that cannot " +
			"wait can be forced.",
		acts: []act{
			{command: patchApp("demoapp-sample", fmt.Sprintf(
				`{"spec":{"message":"At night","upgradeWindow":{"schedule":"%d %d * * *","duration":"1h"}}}`, opens.Minute(), opens.Hour()))},
			waitFor(app, "condition=UpgradeHeld"),
			{command: said(app, "UpgradeHeld"), want: shows("A change waits for the upgrade window, which opens at " + opens.Format("2006-01-02T15:04"))},
			{command: field(app, ".status.deployedRelease.revision"), want: prints("4")},
			{command: in("annotate --overwrite da demoapp-sample demo.example.com/requested-at=second demo.example.com/force-at=second")},
			waitFor(app, revision(5)),
			waitFor(app, "condition=Ready"),
		},
	}
}

func license(licenses licensor) step {
	const app = "da/licensed"
	return step{
		title: "A license server must grant the upgrade",
		note:  "The tour's license server denies the first request. The operator asks again after two minutes, or at once when an annotation requests it.",
		acts: []act{
			{command: in("apply -f artifacts/examples/license.yaml")},
			waitFor(app, "condition=Licensed=false"),
			{command: said(app, "Ready"), want: prints("The license server answered 403 Forbidden")},
			{command: "# the license server changes its mind", do: licenses.grant},
			{command: in("annotate da licensed demo.example.com/requested-at=now")},
			waitFor(app, "condition=Ready"),
			{command: said(app, "Licensed"), want: prints("The license server granted it")},
		},
	}
}
