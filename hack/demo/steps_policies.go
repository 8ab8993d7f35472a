// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

func driftPolicy() step {
	const app = "da/demoapp-sample"
	return step{
		title: "Drift that is only reported",
		note:  "With the mode Warn, the operator names the fields and leaves them. Back in the mode Correct, it corrects them.",
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

func driftRules() step {
	const app = "kept-clean"
	return step{
		title: "Ignored fields, and foreign fields that are removed",
		note: "An autoscaler owns the replicas, so they stay, even when another field of the Deployment is corrected. " +
			"With foreignFields: Remove, fields that others add to the objects are removed.",
		acts: []act{
			{command: in("apply -f artifacts/examples/drift-policy.yaml")},
			waitFor("da/"+app, "condition=Ready"),
			{command: in("scale deployment/" + app + " --replicas=2")},
			{
				command: in("label deployment/" + app + " team=blue"),
				effect: &effect{
					watch:  in("get deployment " + app + ` --watch -o jsonpath='replicas={.spec.replicas} team={.metadata.labels.team}.{"\n"}'`),
					before: "replicas=2 team=blue.", after: "replicas=2 team=.", verb: "removed",
				},
			},
			{
				command: in("patch configmap " + app + ` --type=merge -p '{"data":{"extra":"key"}}'`),
				effect: &effect{
					watch:  in("get configmap " + app + ` --watch -o jsonpath='extra={.data.extra}.{"\n"}'`),
					before: "extra=key.", after: "extra=.", verb: "removed",
				},
			},
		},
	}
}

func values() step {
	const app = "demoapp-with-values"
	team := field("deployment "+app, ".spec.template.metadata.labels.team")
	return step{
		title: "Values come from a ConfigMap",
		note:  "They set options of the chart that the spec has no field for. The ConfigMap is watched, and the release follows its changes.",
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
		note:  "The API server refuses the pods. A retry would not help, so the operator rolls back to the last good revision. A new spec is tried again.",
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

// unhealthy continues with the app of remediation.
func unhealthy() step {
	const app = "da/careful"
	return step{
		title: "Pods that do not become ready are a failure",
		note: "Its spec says waitForReady. The image does not exist, so the pods are not ready in time, and the last good " +
			"revision is brought back.",
		acts: []act{
			{command: patchApp("careful", `{"spec":{"image":"registry.invalid/nginx:1","timeout":"2s","remediation":{"retries":0}}}`)},
			waitFor(app, "condition=Remediated"),
			{command: said(app, "Remediated"), want: shows("Rolled back to revision", "is not healthy after 2s")},
			{command: field(app, `.status.conditions[?(@.type=="Failed")].reason`), want: prints("HealthTimeout")},
			waitFor(app, "condition=Stalled"),
			{command: patchApp("careful", `{"spec":{"image":null,"timeout":"20s"}}`)},
			waitFor(app, "condition=Ready"),
		},
	}
}

// rollout precedes any DemoApp that would be rolled back. The first DemoApp that gets the newer chart fails for a
// while.
func rollout(operator performer) step {
	const (
		reason  = `{.status.conditions[?(@.type=="Ready")].reason}`
		columns = `-o custom-columns='NAME:.metadata.name,CHART:.status.deployedRelease.chartVersion,` +
			`READY:.status.conditions[?(@.type=="Ready")].reason,LAST UPGRADE:.status.lastUpgradeReason'`
	)
	return step{
		title: "A newer operator brings a newer chart",
		note: "Its chart has one ConfigMap more, for which a quota leaves no room. It upgrades one DemoApp at a time and must " +
			"stop at the first failure. With the quota gone, all are asked to try again at once, and the rollout goes on.",
		acts: []act{
			{command: "# the operator is stopped", do: operator.end},
			{command: in("create quota full --hard=count/configmaps=1")},
			waitFor("quota/full", "jsonpath='{.status.hard.count/configmaps}'=1"),
			{
				command: operator.newerCommand(), do: operator.startNewer,
				effect: &effect{
					watch:  in(`get da --watch -o jsonpath='` + reason + ` {.metadata.name}{"\n"}'`),
					before: "Healthy", after: "RolloutHalted", verb: "halted",
				},
			},
			{command: in("get da " + columns), want: shows("RolloutHalted", "UpgradeFailed")},
			{command: in("delete quota full")},
			{command: in("annotate da --all --overwrite demo.example.com/requested-at=room")},
			waitFor("da/app-a da/app-b da/demoapp-with-values", "jsonpath='{.status.deployedRelease.chartVersion}'="+newerVersion),
			waitFor("da/app-a da/app-b da/demoapp-with-values", "condition=Ready"),
			{command: in("get da " + columns), want: shows(newerVersion, "ChartChanged", "OutsideWindow")},
			{command: in("get events --field-selector=reason=Held"), want: shows("RolloutQueued", "it is rolled out to 1 DemoApps at a time")},
		},
	}
}

func everyNode() step {
	const (
		node = `$(kubectl get nodes -o jsonpath='{.items[0].metadata.labels.kubernetes\.io/hostname}')`
		// The DemoAppCluster selects one node, since the cluster may have many. Its DemoApp stays until the tour ends:
		// on a new cluster, the garbage collector may take half a minute to notice the kind.
		selector = `{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"` + node + `\"}}}`
	)
	return step{
		title: "A DemoApp for each node",
		note: "A DemoAppCluster keeps one for each node that matches, here a single one, and pins it to the node. " +
			"A change of the template is rolled out.",
		acts: []act{
			{command: in(`patch --local -f artifacts/examples/demoappcluster.yaml --type=merge -p "`+selector+`" -o yaml | `) + in("apply -f -")},
			waitFor("dac/page", "condition=Ready"),
			{command: in("get dac"), want: shows("page", "True")},
			{command: in("get da -l demo.example.com/cluster=page"), want: shows("page-", "Hello from this node")},
			{
				command: in(`get da -l demo.example.com/cluster=page -o jsonpath='{.items[*].spec.nodeName}'`),
				want:    differs(new(string)),
			},
			{command: in(`patch dac page --type=merge -p '{"spec":{"template":{"spec":{"message":"A new page for every node"}}}}'`)},
			waitFor("dac/page", "condition=Ready"),
			{command: in("get da -l demo.example.com/cluster=page"), want: shows("page-", "A new page for every node")},
		},
	}
}

func history() step {
	const app = "da/demoapp-sample"
	return step{
		title: "The history of a DemoApp",
		note:  "The last five entries say what was done, and why. Equal entries are counted. Each transition also has an event.",
		acts: []act{
			{
				command: in(`get ` + app + ` -o jsonpath='{range .status.history[*]}{.time} {.action} {.outcome} {.reason}, revision {.revision}{"\n"}{end}'`),
				want:    shows("Upgrade Succeeded SpecGenerationChanged, revision 5", "Repair Succeeded DriftDetected, revision 4", "Upgrade Succeeded UserRequested, revision 4"),
			},
			{
				command: in("get events --field-selector=involvedObject.kind=DemoApp,involvedObject.name=demoapp-sample"),
				want:    shows("Installed", "Upgraded", "DriftCorrected", "Held", "SuspendedBySpec", "OutsideWindow"),
			},
		},
	}
}
