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

// step is one part of the tour.
type step struct {
	title string
	// note says in a sentence or two what the step shows.
	note string
	acts []act
}

// act is one command of a step with its expected result.
type act struct {
	// command is the shell command, as a user would type it.
	command string
	// do runs in place of the command, for acts without a shell command.
	do func(ctx context.Context) (output string, err error)
	// goal completes the sentence "expected ..." when the command fails; "" expects success.
	goal string
	// want checks the output. The zero value accepts any output.
	want expectation
	// keep, if set, receives the output for later acts, and may reject it.
	keep func(output string) error
	// effect is awaited while the command runs.
	effect *effect
	// secret hides the output.
	secret bool
}

// expectation is a condition for an output.
type expectation struct {
	// text completes the sentence "expected ...".
	text  string
	holds func(output string) bool
}

// effect is the operator's reaction to a command. A second command shows it, and prints a line for each change of an
// object.
type effect struct {
	// watch is the second command. It does not end by itself.
	watch string
	// before begins the line that shows the object after the command, and after the line that shows it corrected.
	before, after string
	// verb says what the operator did: "corrected".
	verb string
}

// prints expects exactly one text, without regard to space around it.
func prints(want string) expectation {
	return expectation{
		text:  fmt.Sprintf("the output %q", want),
		holds: func(output string) bool { return strings.TrimSpace(output) == want },
	}
}

// shows expects all parts in the output, in any order.
func shows(parts ...string) expectation {
	return expectation{
		text: "output with " + strings.Join(parts, ", "),
		holds: func(output string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(output, part) })
		},
	}
}

// without adds to e that a part must not be in the output. The description does not name the part, which is a secret.
func (e expectation) without(part string) expectation {
	return expectation{
		text:  e.text + ", and without the key",
		holds: func(output string) bool { return e.holds(output) && !strings.Contains(output, part) },
	}
}

// differs expects an output other than the content of from.
func differs(from *string) expectation {
	return expectation{
		text: "another output than before",
		holds: func(output string) bool {
			got := strings.TrimSpace(output)
			return got != "" && got != *from
		},
	}
}

// remember stores an output for [differs].
func remember(into *string) func(output string) error {
	return func(output string) error {
		*into = strings.TrimSpace(output)
		return nil
	}
}

// Names of the tour. The namespace identifies the remains of an earlier tour.
const (
	tourNamespace   = "demoapp-tour"
	tourLabel       = "demo.example.com/tour"
	systemNamespace = "demoapp-system"
	auditNamespace  = "demoapp-audit"
	serviceAccount  = "demoapp-controller"

	crdFiles      = "artifacts/crds/"
	namespaceFile = "artifacts/deploy/00-namespace.yaml"
	rbacFile      = "artifacts/deploy/10-rbac.yaml"
)

// waitLimit bounds each wait of the tour, including those of "kubectl wait".
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

// deleteAndAwait deletes an object, and awaits the object that replaces it.
func deleteAndAwait(object string) act {
	return act{
		command: in("delete " + object),
		effect: &effect{
			watch:  in("get " + object + ` --watch --output-watch-events -o jsonpath='{.type} {.object.metadata.uid}{"\n"}'`),
			before: "DELETED", after: "ADDED", verb: "recreated",
		},
	}
}

// said returns the kubectl command that prints the message of a condition.
func said(object, condition string) string {
	return field(object, fmt.Sprintf(".status.conditions[?(@.type==%q)].message", condition))
}

// patchApp returns the kubectl command that changes a DemoApp.
func patchApp(name, change string) string {
	return in(fmt.Sprintf("patch da %s --type=merge -p '%s'", name, change))
}

// revision returns the condition that a DemoApp has reached a revision.
func revision(number int) string {
	return fmt.Sprintf("jsonpath='{.status.deployedRelease.revision}'=%d", number)
}

// licensor is the tour's interface of the license server.
type licensor interface {
	// grant makes the server grant the denied license.
	grant(ctx context.Context) (output string, err error)
}

// performer is the tour's interface of the operator.
type performer interface {
	// command returns the command that starts the operator, as a user would type it.
	command() string
	// useToken stores the operator's token.
	useToken(token string) error
	// start starts the operator and waits until it is ready.
	start(ctx context.Context) (output string, err error)
	// end stops the operator and waits for its end.
	end(ctx context.Context) (output string, err error)
	// newerCommand returns the command that starts the newer operator, as a user would type it.
	newerCommand() string
	// startNewer starts the newer operator and waits until it is ready.
	startNewer(ctx context.Context) (output string, err error)
}

// clusterFeatures are what the steps depend on.
type clusterFeatures struct {
	// gatewayAPI says that the cluster has a Gateway API of its own.
	gatewayAPI bool
	// simulatedNodes says that the pods run on simulated nodes, which need no storage.
	simulatedNodes bool
}

// observeFeatures reads the features of the cluster. It returns an error if the cluster lacks what the tour needs.
func observeFeatures(ctx context.Context, sh shell) (clusterFeatures, error) {
	gatewayAPI, err := hasGatewayAPI(ctx, sh)
	if err != nil {
		return clusterFeatures{}, err
	}
	simulatedNodes, err := hasSimulatedNodes(ctx, sh)
	if err != nil {
		return clusterFeatures{}, err
	}
	return clusterFeatures{gatewayAPI: gatewayAPI, simulatedNodes: simulatedNodes}, nil
}

// tour returns the steps in order. Each step builds on the earlier ones.
func tour(operator performer, licenses licensor, features clusterFeatures) []step {
	return []step{
		optIn(),
		install(operator),
		create(),
		inspect(),
		upgrade(),
		drift(),
		foreign(),
		suspension(),
		request(),
		driftPolicy(),
		driftRules(),
		window(time.Now()),
		license(licenses),
		validation(),
		exposure(),
		gateway(features.gatewayAPI),
		dependency(),
		rotation(),
		values(),
		rollout(operator),
		remediation(),
		unhealthy(),
		everyNode(),
		memcached(),
		memcachedBackup(),
		website(),
		webApp(),
		postgreSQL(features.simulatedNodes),
		appConfig(),
		backup(),
		appStack(),
		ecommercePlatform(),
		history(),
		deletion(),
	}
}
