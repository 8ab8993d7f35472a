// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
)

// TestValuesAreRefused asserts that the chart names the value that is wrong.
func TestValuesAreRefused(t *testing.T) {
	tests := []struct{ name, values, want string }{
		// The schema.
		{"unknown value", "{replicas: 3}", "additional properties 'replicas' not allowed"},
		{"unknown nested value", "{image: {version: v1}}", "at '/image': additional properties 'version' not allowed"},
		{"text for a number", "{replicaCount: two}", "at '/replicaCount': got string, want integer"},
		{"number for a text", "{image: {tag: 1.2}}", "at '/image/tag': got number, want string"},
		{"negative replicas", "{replicaCount: -1}", "at '/replicaCount': minimum"},
		{"digest without its algorithm", "{image: {digest: abc}}", "at '/image/digest'"},
		{"pull policy", "{image: {pullPolicy: Sometimes}}", "at '/image/pullPolicy': value must be one of"},
		{"kind", "{kinds: [mysql]}", "at '/kinds/0': value must be one of"},
		{"kind twice", "{kinds: [webapp, webapp]}", "at '/kinds': items at 0 and 1 are equal"},
		{"namespace", "{watchNamespaces: [Team_A]}", "at '/watchNamespaces/0'"},
		{"duration", "{leaderElection: {leaseDuration: 15}}", "at '/leaderElection/leaseDuration'"},
		{"log format", "{logging: {format: xml}}", "at '/logging/format': value must be one of"},
		{"log level that shows Secrets", "{logging: {verbosity: 9}}", "at '/logging/verbosity': maximum"},
		{"memory", "{resources: {limits: {memory: lots}}}", "at '/resources/limits/memory'"},
		{"port", "{networkPolicy: {egressPorts: [70000]}}", "at '/networkPolicy/egressPorts/0': maximum"},
		{"argument that is no flag", "{extraArgs: [workers=3]}", "at '/extraArgs/0'"},
		{"watches without a chart", "{watches: [{version: v1, kind: A}]}", "at '/watches/0': missing property 'chart'"},
		{"spread without a selector", "{topologySpreadConstraints: [{maxSkew: 1}]}", "labelSelector"},
		// Combinations.
		{"replicas without a leader", "{leaderElection: {enabled: false}}", "replicaCount: must be 1 without leader election"},
		{"shards without a leader", "{replicaCount: 1, shards: 2, leaderElection: {enabled: false}}", "shards: needs leader election"},
		{"too many shards", "{shards: 65}", "at '/shards': maximum"},
		{"tag and digest", "{image: {tag: v1.2.3, digest: 'sha256:" + digest + "'}}", "image.tag: is of no use beside image.digest"},
		{"stacks without databases", "{kinds: [appstack]}", "kinds: appstack creates PostgreSQLs; add postgresql to kinds"},
		{"platforms without databases", "{kinds: [ecommerceplatform]}", "kinds: ecommerceplatform creates PostgreSQLs"},
		{"certificate without a webhook", "{webhook: {certManager: {enabled: true}}}", "webhook.certManager.enabled: is of no use"},
		{"registries without a webhook", "{webhook: {approvedRegistries: [a]}}", "webhook.approvedRegistries: is of no use"},
		{"webhook without WebApps", "{webhook: {enabled: true}}", "webhook.enabled: the webhook reviews WebApps; add webapp to kinds"},
		{
			"webhook that would write cluster-scoped objects", "{webhook: {enabled: true}, kinds: [webapp], watchNamespaces: [a]}",
			"set webhook.certManager.enabled=true",
		},
		{"DemoAppClusters in namespaces", "{watchNamespaces: [a], controllers: [demoappcluster]}", "controllers: demoappcluster reads nodes"},
		{"secure metrics that are off", "{metrics: {enabled: false, secure: true}}", "metrics.secure: is of no use without metrics"},
		{"certificate without TLS", "{metrics: {certSecret: tls}}", "metrics.certSecret: is of no use without TLS"},
		{"verification without TLS", "{serviceMonitor: {tlsConfig: {serverName: a}}}", "serviceMonitor.tlsConfig and authorization: are"},
		{"token without TLS", "{serviceMonitor: {authorization: {type: Bearer}}}", "serviceMonitor.tlsConfig and authorization: are"},
		{"label of the selector", "{podLabels: {app.kubernetes.io/name: a}}", "podLabels: app.kubernetes.io/name selects the pods"},
		{"ServiceMonitor without metrics", "{metrics: {enabled: false}, serviceMonitor: {enabled: true}}", "serviceMonitor.enabled: there"},
		{"PrometheusRule without metrics", "{metrics: {enabled: false}, prometheusRule: {enabled: true}}", "prometheusRule.enabled: there"},
		{"annotations of a ServiceAccount of others", "{serviceAccount: {create: false, annotations: {a: b}}}", "serviceAccount.annotations:"},
		{"rules that nothing binds", "{rbac: {create: false, extraRules: [{verbs: [get]}]}}", "set rbac.create=true"},
		{"too little memory", "{resources: {limits: {memory: 16Mi}}}", `resources.limits.memory: "16Mi" is too little`},
		{"memory that the operator exceeds", "{resources: {limits: {memory: 64Mi}}}", `resources.limits.memory: "64Mi" is too little for the operator; use at least 128Mi`},
		{"lease as long as its renewal", "{leaderElection: {leaseDuration: 10s}}", "leaderElection.renewDeadline: 10s must be shorter than leaseDuration, 10s"},
		{"lease shorter than its renewal", "{leaderElection: {renewDeadline: 1m30s, leaseDuration: 1m}}", "leaderElection.renewDeadline: 1m30s must be shorter"},
		{"renewal shorter than a retry", "{leaderElection: {retryPeriod: 9s}}", "leaderElection.renewDeadline: 10s must be longer than 1.2 times retryPeriod, 9s"},
		{"lease of half a second", "{leaderElection: {leaseDuration: 12500ms}}", "leaderElection.leaseDuration: 12500ms must be whole seconds"},
		{"no retries", "{leaderElection: {retryPeriod: 0s}}", "leaderElection.retryPeriod: 0s must be longer than 0"},
		{
			"unknown controller", "{controllers: ['*', -mysql]}", "controllers: -mysql is the name of no kind; use *, or names with or without a leading dash, of: " +
				"appconfig, appstack, backup, demoapp, demoappcluster, ecommerceplatform, memcachedbackup, postgresql, watches, webapp, website",
		},
		{"no workers", "{extraArgs: [--workers=0]}", "extraArgs: --workers=0: must be at least 1"},
		{"namespaces without their Roles", "{extraArgs: [--namespaces=a]}", "extraArgs: the chart sets --namespaces itself; set the value watchNamespaces instead"},
		{"flag of a value", "{extraArgs: [-v=9]}", "extraArgs: the chart sets --v itself; set the value logging.verbosity instead"},
		{"flag of other objects", "{extraArgs: ['--health-probe-bind-address=:1']}", "extraArgs: the chart sets --health-probe-bind-address itself"},
		{"impersonation in namespaces", "{rbac: {impersonate: [a]}, watchNamespaces: [b]}", "rbac.impersonate: needs a ClusterRole"},
		{"impersonation without watches", "{rbac: {impersonate: [a]}}", "rbac.impersonate: an operator that impersonates"},
		{
			"impersonation of another account", "{rbac: {impersonate: [other]}, watches: [" + entry + "]}",
			"watches: the serviceAccountName of Memcached must be one of rbac.impersonate",
		},
		{
			"impersonation with a kind in Go", "{rbac: {impersonate: [deployer]}, kinds: [website], watches: [" + entry + "]}",
			"kinds: website has no releases of watches",
		},
		{
			"impersonation with other controllers", "{rbac: {impersonate: [deployer]}, controllers: [demoapp], watches: [" + entry + "]}",
			"controllers: with rbac.impersonate, must be empty or [watches]",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := renderRelease(t, releaseName, namespace, parse[values](t, test.values))

			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// TestLint runs "helm lint --strict" with the default values and with all optional objects.
func TestLint(t *testing.T) {
	for _, text := range []string{"{}", monitored, admission, "{watchNamespaces: [a], kinds: [postgresql], watches: [" + entry + "]}"} {
		t.Run(text, func(t *testing.T) {
			version, err := common.ParseKubeVersion("v1.36.0")
			if err != nil {
				t.Fatal(err)
			}
			lint := action.NewLint()
			lint.Strict, lint.Namespace, lint.KubeVersion = true, namespace, version

			result := lint.Run([]string{chartDir}, parse[values](t, text))

			for _, err := range result.Errors {
				t.Error(err)
			}
			if result.TotalChartsLinted != 1 {
				t.Errorf("%d charts were linted", result.TotalChartsLinted)
			}
		})
	}
}
