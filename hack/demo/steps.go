// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
)

func install(operator performer) step {
	return step{
		title: "The operator starts",
		note:  "It runs as a process on this machine, with the ServiceAccount and the RBAC of a deployment.",
		acts: []act{
			{command: "kubectl create namespace " + tourNamespace},
			{command: fmt.Sprintf("kubectl label namespace %s %s=true pod-security.kubernetes.io/enforce=restricted",
				tourNamespace, tourLabel)},
			{command: "kubectl apply -f " + crdFiles},
			{command: fmt.Sprintf("kubectl wait -f %s --for=condition=Established --timeout=%.0fs", crdFiles,
				waitLimit.Seconds())},
			{command: fmt.Sprintf("kubectl apply -f %s -f %s", namespaceFile, rbacFile)},
			{
				command: fmt.Sprintf("kubectl -n %s create token %s --duration=1h", systemNamespace, serviceAccount),
				secret:  true,
				keep:    operator.useToken,
			},
			{command: operator.command(), do: operator.start},
		},
	}
}

func create() step {
	return step{
		title: "A DemoApp is applied",
		note:  "The operator installs its embedded chart. Ready means deployed and healthy.",
		acts: []act{
			{command: in("apply -f artifacts/examples/demoapp.yaml")},
			waitFor("da/demoapp-sample", "condition=Ready"),
			{command: in("get da"), want: shows("demoapp-sample", "True", "Hello from the hybrid operator")},
		},
	}
}

func inspect() step {
	const four = "deployment,service,configmap,secret"
	return step{
		title: "The release",
		note:  "It is an ordinary Helm release, which the helm command can read. The DemoApp owns the objects.",
		acts: []act{
			{
				command: in("get " + four + " -l app.kubernetes.io/name=demoapp-sample"),
				want: shows("deployment.apps/demoapp-sample", "service/demoapp-sample", "configmap/demoapp-sample",
					"secret/demoapp-sample"),
			},
			{
				command: field("configmap demoapp-sample", `.data.index\.html`),
				want:    prints("<html><body><h1>Hello from the hybrid operator</h1></body></html>"),
			},
			{
				command: in("get deployment demoapp-sample " +
					"-o jsonpath='{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}'"),
				want: prints("DemoApp/demoapp-sample"),
			},
			{
				command: in("get secrets --field-selector=type=helm.sh/release.v1"),
				want:    shows("sh.helm.release.v1.demoapp-sample.v1"),
			},
			{
				command: field("da demoapp-sample", ".status.deployedRelease"),
				want:    shows(`"name":"demoapp-sample"`, `"revision":1`, `"chart":"demo-app"`),
			},
		},
	}
}

func upgrade() step {
	return step{
		title: "An upgrade by patch",
		note:  "The message is text, so the page has it escaped. The pods are replaced. The status has the reason.",
		acts: []act{
			{command: in(`patch da demoapp-sample --type=merge -p '{"spec":{"message":"Tea & <cake>"}}'`)},
			waitFor("da/demoapp-sample", revision(2)),
			waitFor("da/demoapp-sample", "condition=Ready"),
			{command: field("da demoapp-sample", ".status.lastUpgradeReason"), want: prints("SpecGenerationChanged")},
			{
				command: field("configmap demoapp-sample", `.data.index\.html`),
				want:    prints("<html><body><h1>Tea &amp; &lt;cake&gt;</h1></body></html>"),
			},
		},
	}
}

// watchReplicas prints the replicas of a Deployment at each change.
func watchReplicas() string {
	return in(`get deployment demoapp-sample --watch -o jsonpath='{.spec.replicas}{"\n"}'`)
}

func drift() step {
	return step{
		title: "Drift is corrected",
		note: "Another client changes and deletes objects of the release. A watch beside each command shows the change and " +
			"the correction. There is no new revision: only the drifted object is applied again.",
		acts: []act{
			{
				command: in("scale deployment/demoapp-sample --replicas=5"),
				effect:  &effect{watch: watchReplicas(), before: "5", after: "1", verb: "corrected"},
			},
			{
				command: in(`patch configmap demoapp-sample --type=merge -p '{"data":{"index.html":"tampered"}}'`),
				effect: &effect{
					watch:  in(`get configmap demoapp-sample --watch -o jsonpath='{.data.index\.html}{"\n"}'`),
					before: "tampered", after: "<html>", verb: "corrected",
				},
			},
			deleteAndAwait("service demoapp-sample"),
			waitFor("da/demoapp-sample", "jsonpath='{.status.lastUpgradeReason}'=DriftDetected"),
			{command: field("da demoapp-sample", ".status.deployedRelease.revision"), want: prints("2")},
			waitFor("da/demoapp-sample", "condition=Ready"),
		},
	}
}

func foreign() step {
	return step{
		title: "Foreign fields are kept",
		note: "A label of another client is no drift. The Deployment is scaled once more, to show that the label survives a " +
			"correction of the same object.",
		acts: []act{
			{command: in("label deployment/demoapp-sample team=blue")},
			{
				command: in("scale deployment/demoapp-sample --replicas=3"),
				effect:  &effect{watch: watchReplicas(), before: "3", after: "1", verb: "corrected"},
			},
			{
				command: in("get deployment demoapp-sample -o jsonpath='{.spec.replicas} {.metadata.labels.team}'"),
				want:    prints("1 blue"),
			},
		},
	}
}

func dependency() step {
	return step{
		title: "One DemoApp waits for another",
		note:  "app-b is created first and waits for app-a. It is installed as soon as app-a is deployed.",
		acts: []act{
			{command: in("apply -f artifacts/examples/waitfor.yaml")},
			waitFor("da/app-a da/app-b", "condition=Ready"),
			{command: field("da app-b", ".status.lastUpgradeReason"), want: prints("CrossCRDependencyBecameReady")},
			{command: in("get da"), want: shows("app-a", "app-b", "demoapp-sample")},
		},
	}
}

func rotation() step {
	const app, key = "demoapp-with-secret", "demoapp-key"
	checksum := field("deployment "+app, `.spec.template.metadata.annotations.checksum/secret`)
	var before string
	return step{
		title: "A key is rotated",
		note:  "The DemoApp names a Secret. A new key in the Secret replaces the pods, without a change of the DemoApp.",
		acts: []act{
			{command: in("apply -f artifacts/examples/demoapp-apikeyfrom.yaml")},
			waitFor("da/"+app, "condition=Ready"),
			{command: checksum, keep: remember(&before)},
			{command: in("create secret generic " + key +
				` --from-literal=apiKey="$(head -c 16 /dev/urandom | base64)" --dry-run=client -o yaml | ` + in("apply -f -"))},
			waitFor("da/"+app, revision(2)),
			waitFor("da/"+app, "condition=Ready"),
			{command: checksum, want: differs(&before)},
		},
	}
}

func deletion() step {
	const ofSample = "demo.example.com/source-namespace=" + tourNamespace + ",demo.example.com/source-name=demoapp-sample"
	return step{
		title: "A DemoApp is deleted",
		note: "First, a record without the key is written to the audit namespace. Then the release is uninstalled with its " +
			"history. The DemoApp is removed last.",
		acts: []act{
			{command: in(fmt.Sprintf("delete da demoapp-sample --timeout=%.0fs", waitLimit.Seconds()))},
			{
				command: fmt.Sprintf("kubectl -n %s get configmaps -l %s "+
					`-o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{.data.deleted-at}{"\n"}{.data.spec}{"\n"}{end}'`,
					auditNamespace, ofSample),
				want: shows(tourNamespace+"-demoapp-sample-", "nginx:1.27-alpine").without("verysecret"),
			},
			{
				command: in("get deployments,services,configmaps,secrets -l app.kubernetes.io/name=demoapp-sample"),
				want:    shows("No resources found"),
			},
			{
				command: in("get secrets -l owner=helm,name=demoapp-sample"),
				want:    shows("No resources found"),
			},
		},
	}
}
