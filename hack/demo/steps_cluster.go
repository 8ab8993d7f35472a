// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// tourClass is the IngressClass that the tour gives the cluster, and takes away again.
const tourClass = "demoapp-tour"

func exposure() step {
	const app = "da/demoapp-outside"
	return step{
		title: "An app is reached by what the cluster supports",
		note:  "Without the IngressClass there is no Ingress, and the app runs. When the class comes or goes, the release follows.",
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

func validation() step {
	const app = "da/port-wanter"
	return step{
		title: "Two DemoApps ask for one port",
		note:  "The older one keeps it. The other one is told, and installed as soon as the port is given up.",
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
