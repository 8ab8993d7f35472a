// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
)

const (
	// routeCRD identifies the Gateway API. The tour installs only the part that an HTTPRoute needs.
	routeCRD     = "httproutes.gateway.networking.k8s.io"
	routeCRDFile = "test/integration/testdata/httproute-crd.yaml"
)

// tourClass is the IngressClass that the tour creates and removes.
const tourClass = "demoapp-tour"

func exposure() step {
	const app = "da/demoapp-outside"
	return step{
		title: "An app is exposed by what the cluster supports",
		note:  "Without the IngressClass, the app runs without an Ingress. The release follows when the class is created or deleted.",
		acts: []act{
			{command: in(`patch --local -f artifacts/examples/ingress.yaml --type=merge -p '{"spec":{"ingress":{"className":"`+tourClass+`","gateway":null}}}' -o yaml | `) +
				in("apply -f -")},
			waitFor(app, "condition=Ready"),
			{command: said(app, "Exposed"), want: prints(`IngressClass "` + tourClass + `" does not exist`)},
			{command: `echo '{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"` + tourClass +
				`"},"spec":{"controller":"example.com/none"}}' | kubectl create -f -`},
			waitFor(app, "condition=Exposed"),
			{command: field(app, ".status.lastUpgradeReason"), want: prints("ClusterCapabilitiesChanged")},
			{command: in("get ingress demoapp-outside"), want: shows("outside.example.com", tourClass)},
			{command: "kubectl delete ingressclass " + tourClass},
			waitFor(app, "condition=Exposed=false"),
		},
	}
}

// hasGatewayAPI reports whether the cluster has the Gateway API, which the tour then neither installs nor removes.
func hasGatewayAPI(ctx context.Context, sh shell) (bool, error) {
	output, err := sh.run(ctx, "kubectl get crd "+routeCRD+" --ignore-not-found -o name")
	if err != nil {
		return false, fmt.Errorf("look for the Gateway API: %s: %w", strings.TrimSpace(output), err)
	}
	return strings.TrimSpace(output) != "", nil
}

// gateway continues with the app of exposure. installed says that the cluster has a Gateway API of its own.
func gateway(installed bool) step {
	const app, reason = "da/demoapp-outside", `jsonpath='{.status.conditions[?(@.type=="Exposed")].reason}'=`
	change := act{command: patchApp("demoapp-outside", `{"spec":{"ingress":{"className":null,"gateway":{"name":"public"}}}}`)}
	show := act{
		command: in("get httproute demoapp-outside -o jsonpath='{.spec.hostnames} {.spec.parentRefs[*].name}'"),
		want:    prints(`["outside.example.com"] public`),
	}
	s := step{
		title: "The Gateway API is installed and removed",
		note:  "The same app requests an HTTPRoute. The release has one while the cluster has the kind, and runs without it otherwise.",
	}
	if installed {
		s.acts = []act{change, waitFor(app, reason+"RouteDeployed"), show}
		return s
	}
	s.acts = []act{
		change,
		waitFor(app, reason+"GatewayAPIMissing"),
		waitFor(app, "condition=Ready"),
		{command: "kubectl label --local -f " + routeCRDFile + " " + tourLabel + "=true -o yaml | kubectl create -f -"},
		waitFor(app, "condition=Exposed"),
		{command: field(app, ".status.lastUpgradeReason"), want: prints("ClusterCapabilitiesChanged")},
		show,
		{command: fmt.Sprintf("kubectl delete crd -l %s=true --timeout=%.0fs", tourLabel, waitLimit.Seconds())},
		waitFor(app, reason+"GatewayAPIMissing"),
		waitFor(app, "condition=Ready"),
	}
	return s
}

func validation() step {
	const app = "da/port-wanter"
	return step{
		title: "Two DemoApps ask for one port",
		note:  "The older DemoApp keeps the port. The other one reports the conflict, and is installed as soon as the port is free.",
		acts: []act{
			{command: in("apply -f artifacts/examples/validation.yaml")},
			waitFor("da/port-holder", "condition=Ready"),
			waitFor(app, "condition=Validated=false"),
			{command: said(app, "Validated"), want: prints(`Node port 30123 belongs to DemoApp "port-holder", which is older`)},
			{command: patchApp("port-holder", `{"spec":{"service":{"type":"ClusterIP","nodePort":null}}}`)},
			waitFor(app, "condition=Ready"),
		},
	}
}
