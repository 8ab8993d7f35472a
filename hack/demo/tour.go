// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// step is one thing that the tour shows.
type step struct {
	title string
	// note tells in a sentence or two what to look at.
	note string
	acts []act
}

// act is one command of a step, and what has to come of it.
type act struct {
	// command is what the user would type, and what is run.
	command string
	// do runs in place of the command, for the few acts that are not one.
	do func(ctx context.Context) (output string, err error)
	// goal completes the sentence "expected ..." when the command fails; "" is that it succeeds.
	goal string
	// want judges the output. The zero value is content when the command succeeds.
	want expectation
	// keep, when set, is handed the output for later, and may refuse it.
	keep func(output string) error
	// effect is watched for while the command runs.
	effect *effect
	// secret keeps the output off the screen.
	secret bool
}

// expectation is what an output should look like.
type expectation struct {
	// text completes the sentence "expected ...".
	text  string
	holds func(output string) bool
}

// effect is what the operator should do about a command, seen through a second command that prints a line for each
// change of an object.
type effect struct {
	// watch is that second command. It does not end by itself.
	watch string
	// before is how a line begins that shows the object as the command left it, after one as it should be again.
	before, after string
	// verb says what the operator did: "put back".
	verb string
}

// prints expects exactly one text, give or take space around it.
func prints(want string) expectation {
	return expectation{
		text:  fmt.Sprintf("the output %q", want),
		holds: func(output string) bool { return strings.TrimSpace(output) == want },
	}
}

// shows expects all parts somewhere in the output.
func shows(parts ...string) expectation {
	return expectation{
		text: "output with " + strings.Join(parts, ", "),
		holds: func(output string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(output, part) })
		},
	}
}

// without adds to e that a part must not be in the output. The part is not named, since it is a secret.
func (e expectation) without(part string) expectation {
	return expectation{
		text:  e.text + ", and without the key",
		holds: func(output string) bool { return e.holds(output) && !strings.Contains(output, part) },
	}
}

// differs expects something, and something else than from holds by then.
func differs(from *string) expectation {
	return expectation{
		text: "another output than before",
		holds: func(output string) bool {
			got := strings.TrimSpace(output)
			return got != "" && got != *from
		},
	}
}

// Names that the tour uses. The namespace is also the mark by which a later tour knows the remains of an earlier one.
const (
	tourNamespace   = "demoapp-tour"
	tourLabel       = "demo.example.com/tour"
	systemNamespace = "demoapp-system"
	auditNamespace  = "demoapp-audit"
	crdName         = "demoapps.demo.example.com"
	crdNames        = "crd/" + crdName + " crd/demoappclusters.demo.example.com"
	serviceAccount  = "demoapp-controller"

	crdFiles      = "artifacts/crds/"
	namespaceFile = "artifacts/deploy/00-namespace.yaml"
	rbacFile      = "artifacts/deploy/10-rbac.yaml"
)

// waitLimit bounds each wait of the tour; "kubectl wait" is told so, too.
const waitLimit = 30 * time.Second

// in returns a kubectl command for the namespace of the tour.
func in(command string) string { return "kubectl -n " + tourNamespace + " " + command }

// waitFor waits until an object in the namespace of the tour has a condition.
func waitFor(object, condition string) act {
	return act{
		command: in(fmt.Sprintf("wait %s --for=%s --timeout=%.0fs", object, condition, waitLimit.Seconds())),
		goal:    fmt.Sprintf("%s to have %s within %s", object, condition, waitLimit),
	}
}

// field returns the kubectl command that prints one field of an object in the namespace of the tour.
func field(object, path string) string {
	return in(fmt.Sprintf("get %s -o jsonpath='{%s}'", object, path))
}

// performer is the operator as the tour needs it.
type performer interface {
	// command is what a user would type to start it.
	command() string
	// useToken keeps the token that the operator introduces itself with.
	useToken(token string) error
	// start starts it and returns when it is ready.
	start(ctx context.Context) (output string, err error)
}

// tour returns the steps in their order. Each builds on those before it.
func tour(operator performer) []step {
	return []step{
		install(operator),
		create(),
		inspect(),
		upgrade(),
		drift(),
		foreign(),
		dependency(),
		rotation(),
		deletion(),
	}
}

func install(operator performer) step {
	return step{
		title: "The operator starts",
		note:  "With the ServiceAccount and the RBAC that it has in a cluster, but as a process on this machine.",
		acts: []act{
			{command: "kubectl create namespace " + tourNamespace},
			{command: fmt.Sprintf("kubectl label namespace %s %s=true pod-security.kubernetes.io/enforce=restricted",
				tourNamespace, tourLabel)},
			{command: "kubectl apply -f " + crdFiles},
			{command: fmt.Sprintf("kubectl wait %s --for=condition=Established --timeout=%.0fs", crdNames,
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
			waitFor("da/demoapp-sample", "jsonpath='{.status.deployedRelease.revision}'=2"),
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
			waitFor("da/"+app, "jsonpath='{.status.deployedRelease.revision}'=2"),
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
