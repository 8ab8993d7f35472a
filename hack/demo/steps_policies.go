// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

func driftPolicy() step {
	const app = "da/demoapp-sample"
	return step{
		title: "Drift that is only reported",
		note:  "With the mode Warn, the operator names the fields and leaves them. Back in the mode Correct, it mends them.",
		acts: []act{
			{command: patchApp("demoapp-sample", `{"spec":{"drift":{"mode":"Warn"}}}`)},
			waitFor(app, "jsonpath='{.status.observedGeneration}'=5"),
			{command: in(`patch configmap demoapp-sample --type=merge -p '{"data":{"index.html":"by hand"}}'`)},
			waitFor(app, "condition=Drifted"),
			{command: said(app, "Drifted"), want: prints("ConfigMap demoapp-sample (changed): /data/index.html")},
			{command: field("configmap demoapp-sample", `.data.index\.html`), want: prints("by hand")},
			{command: patchApp("demoapp-sample", `{"spec":{"drift":{"mode":"Correct"}}}`)},
			waitFor(app, "jsonpath='{.status.history[0].action}'=Repair"),
			{command: field("configmap demoapp-sample", `.data.index\.html`), want: shows("<h1>Later</h1>")},
		},
	}
}

func values() step {
	const app = "demoapp-with-values"
	team := field("deployment "+app, ".spec.template.metadata.labels.team")
	return step{
		title: "Values come from a ConfigMap",
		note:  "What the chart offers beyond the fields of the spec. The ConfigMap is watched: the release follows it.",
		acts: []act{
			{command: in("apply -f artifacts/examples/values.yaml")},
			waitFor("da/"+app, "condition=Ready"),
			{command: team, want: prints("web")},
			{command: in(`patch configmap demoapp-values --type=merge -p '{"data":{"values.yaml":"podLabels: {team: blue}"}}'`)},
			waitFor("da/"+app, revision(2)),
			waitFor("da/"+app, "condition=Ready"),
			{command: team, want: prints("blue")},
		},
	}
}

func remediation() step {
	const app = "da/careful"
	return step{
		title: "An upgrade that fails is rolled back",
		note:  "The API server refuses the pods. Trying again would not help, so the last good revision is brought back; a new spec starts afresh.",
		acts: []act{
			{command: in("apply -f artifacts/examples/remediation.yaml")},
			waitFor(app, "condition=Ready"),
			{command: patchApp("careful", `{"spec":{"values":{"tolerations":[{"operator":"Sometimes"}]}}}`)},
			waitFor(app, "condition=Remediated"),
			{command: said(app, "Remediated"), want: shows("Rolled back to revision 1", "Sometimes")},
			{command: patchApp("careful", `{"spec":{"values":null}}`)},
			waitFor(app, "condition=Ready"),
		},
	}
}

func everyNode() step {
	const (
		node = `$(kubectl get nodes -o jsonpath='{.items[0].metadata.labels.kubernetes\.io/hostname}')`
		// One node of this cluster: it may have many. Its app stays until the tour ends, since on a new cluster the garbage
		// collector may take half a minute to hear of the kind.
		selector = `{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"` + node + `\"}}}`
	)
	return step{
		title: "A DemoApp for each node",
		note:  "A DemoAppCluster keeps one for each node that matches, here a single one, and pins it to the node.",
		acts: []act{
			{command: in(`patch --local -f artifacts/examples/demoappcluster.yaml --type=merge -p "`+selector+`" -o yaml | `) + in("apply -f -")},
			waitFor("dac/page", "condition=Ready"),
			{command: in("get dac"), want: shows("page", "True")},
			{command: in("get da -l demo.example.com/cluster=page"), want: shows("page-", "Hello from this node")},
			{
				command: in(`get da -l demo.example.com/cluster=page -o jsonpath='{.items[*].spec.nodeName}'`),
				want:    differs(new(string)),
			},
		},
	}
}

func history() step {
	const app = "da/demoapp-sample"
	return step{
		title: "What was done, and why",
		note:  "The last five entries. What happens again in the same way is counted. Each transition has an event, too.",
		acts: []act{
			{
				command: in(`get ` + app + ` -o jsonpath='{range .status.history[*]}{.time} {.action} {.outcome} {.reason}, revision {.revision}{"\n"}{end}'`),
				want:    shows("Upgrade Succeeded SpecGenerationChanged, revision 5", "Repair Succeeded DriftDetected, revision 4", "Upgrade Succeeded UserRequested, revision 4"),
			},
			{
				command: in("get events --field-selector=involvedObject.kind=DemoApp,involvedObject.name=demoapp-sample"),
				want:    shows("Installed", "Upgraded", "DriftCorrected", "SuspendedBySpec", "OutsideWindow"),
			},
		},
	}
}
