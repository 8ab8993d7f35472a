// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"

	"github.com/example/demoapp-controller/pkg/controller/child"
)

// Fields maps the fields of the only container in a template of pods to the fields of the owner, in
// messages of the API server. owner is the field that has image, port, resources and
// securityContext, such as spec. The remedies of failing pods name fields of the container, too.
func Fields(owner string) *strings.Replacer {
	const container = "spec.template.spec.containers[0]."
	return strings.NewReplacer(container+"ports[0].containerPort", owner+".port", container, owner+".",
		"set securityContext.runAsUser", "set "+owner+".securityContext.runAsUser")
}

// Report is child.Report for an owner with one container. See [Fields].
func Report(p child.Pass, state child.State, err error, owner string) {
	child.RequeueAfter(p, state)
	verdict := child.Judge(state, err)
	verdict.Message = Fields(owner).Replace(verdict.Message)
	verdict.Mark(p.Conditions())
}
