// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

func install(operator performer) step {
	return step{
		title: "The operator starts",
		note:  "With the ServiceAccount and the RBAC that it has in a cluster, but as a process on this machine.",
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
		note:  "The operator installs the chart that it carries inside. Ready means deployed and healthy.",
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
		title: "What that made",
		note:  "An ordinary Helm release: the helm command reads it too. The objects are owned by the DemoApp.",
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
		note:  "The message is text, so it reaches the page escaped. The pods roll. The status says why it happened.",
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

// watchReplicas prints what a Deployment is asked to run, again with each change.
func watchReplicas() string {
	return in(`get deployment demoapp-sample --watch -o jsonpath='{.spec.replicas}{"\n"}'`)
}

func drift() step {
	return step{
		title: "Drift is corrected",
		note: "Somebody changes and deletes what the release owns. A watch beside each command shows the change arrive " +
			"and go. No new revision: only what drifted is applied again.",
		acts: []act{
			{
				command: in("scale deployment/demoapp-sample --replicas=5"),
				effect:  &effect{watch: watchReplicas(), before: "5", after: "1", verb: "put back"},
			},
			{
				command: in(`patch configmap demoapp-sample --type=merge -p '{"data":{"index.html":"tampered"}}'`),
				effect: &effect{
					watch:  in(`get configmap demoapp-sample --watch -o jsonpath='{.data.index\.html}{"\n"}'`),
					before: "tampered", after: "<html>", verb: "put back",
				},
			},
			{
				command: in("delete service demoapp-sample"),
				effect: &effect{
					watch: in("get service demoapp-sample --watch --output-watch-events " +
						`-o jsonpath='{.type} {.object.metadata.uid}{"\n"}'`),
					before: "DELETED", after: "ADDED", verb: "made again",
				},
			},
			waitFor("da/demoapp-sample", "jsonpath='{.status.lastUpgradeReason}'=DriftDetected"),
			{command: field("da demoapp-sample", ".status.deployedRelease.revision"), want: prints("2")},
			waitFor("da/demoapp-sample", "condition=Ready"),
		},
	}
}

func foreign() step {
	return step{
		title: "What is not ours is left alone",
		note: "A label of somebody else's is no drift. To see that it outlives a correction of the same object, the " +
			"Deployment is scaled once more.",
		acts: []act{
			{command: in("label deployment/demoapp-sample team=blue")},
			{
				command: in("scale deployment/demoapp-sample --replicas=3"),
				effect:  &effect{watch: watchReplicas(), before: "3", after: "1", verb: "put back"},
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
		note:  "The file has app-b first, which waits for app-a. It moves as soon as app-a is deployed.",
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
		note:  "The DemoApp names a Secret of the user's. A new key in it rolls the pods; nobody touches the DemoApp.",
		acts: []act{
			{command: in("apply -f artifacts/examples/demoapp-apikeyfrom.yaml")},
			waitFor("da/"+app, "condition=Ready"),
			{command: checksum, keep: func(output string) error {
				before = strings.TrimSpace(output)
				return nil
			}},
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
		note: "First a record goes to the audit namespace, the key struck out; then the release is uninstalled with its " +
			"history; only then is the DemoApp gone.",
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
