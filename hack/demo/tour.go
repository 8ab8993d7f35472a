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

// said returns the kubectl command that prints the message of a condition.
func said(object, condition string) string {
	return field(object, fmt.Sprintf(".status.conditions[?(@.type==%q)].message", condition))
}

// patchApp returns the kubectl command that changes a DemoApp.
func patchApp(name, change string) string {
	return in(fmt.Sprintf("patch da %s --type=merge -p '%s'", name, change))
}

// revision is when a DemoApp has come to a revision.
func revision(number int) string {
	return fmt.Sprintf("jsonpath='{.status.deployedRelease.revision}'=%d", number)
}

// licensor is the license server as the tour needs it.
type licensor interface {
	// grant makes it say yes to what it denied so far.
	grant(ctx context.Context) (output string, err error)
}

// performer is the operator as the tour needs it.
type performer interface {
	// command is what a user would type to start it.
	command() string
	// useToken keeps the token that the operator introduces itself with.
	useToken(token string) error
	// start starts it and returns when it is ready.
	start(ctx context.Context) (output string, err error)
	// end stops it and returns when it has ended.
	end(ctx context.Context) (output string, err error)
	// newerCommand is what a user would type to start its newer version.
	newerCommand() string
	// startNewer starts that and returns when it is ready.
	startNewer(ctx context.Context) (output string, err error)
}

// tour returns the steps in their order. Each builds on those before it. With hasGateways, the cluster has the Gateway API
// of its own.
func tour(operator performer, licenses licensor, hasGateways bool) []step {
	return []step{
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
		gateway(hasGateways),
		dependency(),
		rotation(),
		values(),
		rollout(operator),
		remediation(),
		unhealthy(),
		everyNode(),
		history(),
		deletion(),
	}
}
