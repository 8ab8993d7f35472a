// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// effect is a change of one value of the chart and its effect.
type effect struct {
	// path is the value, and to its new content, as YAML.
	path, to string
	// with are further values, which are the same before and after the change.
	with string
	// adds and removes are texts of the rendered chart. At least one is given.
	adds, removes string
}

// monitored are the values for which the chart renders its monitoring.
const monitored = "{serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, grafanaDashboard: {enabled: true}}"

// scraped are the values for which Prometheus scrapes metrics with TLS.
const scraped = "{metrics: {secure: true}, serviceMonitor: {enabled: true}}"

// admission are the values for which the chart renders the webhook.
const admission = "{kinds: [webapp], webhook: {enabled: true, certManager: {enabled: true}}}"

// entry is an entry of watches.
const entry = "{group: cache.my.domain, version: v1, kind: Memcached, chart: 'oci://registry.example.com/memcached:1.0.0', " +
	"serviceAccountName: deployer}"

var effects = []effect{
	{path: "replicaCount", to: "3", adds: "replicas: 3", removes: "replicas: 2"},
	{path: "image.repository", to: "registry.example.com/operator", adds: "image: registry.example.com/operator:dev"},
	{path: "image.tag", to: "v1.2.3", adds: "image: demoapp-controller:v1.2.3"},
	{
		path: "image.digest", to: "sha256:" + digest,
		adds: "image: demoapp-controller@sha256:" + digest, removes: "image: demoapp-controller:dev",
	},
	{path: "image.pullPolicy", to: "Always", adds: "imagePullPolicy: Always"},
	{path: "imagePullSecrets", to: "[{name: registry}]", adds: "imagePullSecrets:\n        - name: registry"},
	{path: "resources.requests.cpu", to: "70m", adds: "cpu: 70m"},
	{path: "resources.requests.memory", to: "200Mi", adds: "memory: 200Mi"},
	{path: "resources.limits.memory", to: "1Gi", adds: "value: 921MiB", removes: "value: 460MiB"},
	{path: "leaderElection.enabled", to: "false", with: "{replicaCount: 1}", adds: "type: Recreate", removes: "name: demoapp-controller-leader-election"},
	{path: "leaderElection.leaseDuration", to: "30s", adds: "--leader-elect-lease-duration=30s"},
	{path: "leaderElection.renewDeadline", to: "8s", adds: "--leader-elect-renew-deadline=8s"},
	{path: "leaderElection.retryPeriod", to: "1s", adds: "--leader-elect-retry-period=1s"},
	{path: "watchNamespaces", to: "[team-a, team-b]", adds: "--namespaces=team-a,team-b", removes: "kind: ClusterRoleBinding"},
	{path: "controllers", to: "['*', -website]", adds: "--controllers=*,-website"},
	{path: "kinds", to: "[website]", adds: "name: demoapp-controller-website"},
	{path: "workloadImages.registry", to: "registry.example.com/hub", adds: "--image-registry=registry.example.com/hub"},
	{path: "workloadImages.replace", to: "{redis:7-alpine: redis:7.4}", adds: "--images=redis:7-alpine=redis:7.4"},
	{
		path: "defaultBackupDestination", to: "{type: s3, bucket: backups}",
		adds: `- --default-backup-destination="type=s3"`,
	},
	{path: "shards", to: "3", adds: "- --shards=3"},
	{path: "auditNamespace", to: "records", adds: "--audit-namespace=records"},
	{path: "shutdownTimeoutSeconds", to: "60", adds: "terminationGracePeriodSeconds: 75"},
	{path: "crds.install", to: "false", removes: "kind: CustomResourceDefinition"},
	{path: "crds.keep", to: "false", removes: "helm.sh/resource-policy: keep\n    controller-gen"},
	{path: "rbac.create", to: "false", removes: "kind: ClusterRoleBinding"},
	{path: "rbac.impersonate", to: "[deployer]", with: "{watches: [" + entry + "]}", adds: "resourceNames:\n    - deployer"},
	{path: "rbac.userRoles", to: "false", removes: "name: demoapp-viewer"},
	{
		path: "rbac.extraRules", to: "[{apiGroups: [batch], resources: [jobs], verbs: [get]}]",
		adds: "- apiGroups:\n    - batch\n    resources:\n    - jobs",
	},
	{path: "serviceAccount.create", to: "false", adds: "serviceAccountName: default", removes: "kind: ServiceAccount\nmetadata"},
	{path: "serviceAccount.name", to: "operator", adds: "serviceAccountName: operator", removes: "serviceAccountName: demoapp-controller"},
	{path: "serviceAccount.annotations", to: "{role: arn}", adds: "annotations:\n    role: arn"},
	{path: "podDisruptionBudget.enabled", to: "false", removes: "kind: PodDisruptionBudget"},
	{path: "podDisruptionBudget.maxUnavailable", to: "50%", adds: "maxUnavailable: 50%"},
	{path: "networkPolicy.enabled", to: "false", removes: "kind: NetworkPolicy"},
	{path: "networkPolicy.metricsFrom", to: "[{podSelector: {matchLabels: {app: prometheus}}}]", adds: "app: prometheus"},
	{path: "networkPolicy.webhookFrom", to: "[{ipBlock: {cidr: 192.0.2.10/32}}]", with: admission, adds: "cidr: 192.0.2.10/32"},
	{path: "networkPolicy.egressPorts", to: "[7443]", adds: "port: 7443", removes: "port: 16443"},
	{path: "networkPolicy.extraIngress", to: "[{ports: [{port: 6060}]}]", adds: "port: 6060"},
	{path: "networkPolicy.extraEgress", to: "[{ports: [{port: 5000}]}]", adds: "port: 5000"},
	{path: "affinity", to: "{nodeAffinity: {a: b}}", adds: "nodeAffinity:\n          a: b", removes: "podAntiAffinity"},
	{path: "tolerations", to: "[{operator: Exists}]", adds: "tolerations:\n        - operator: Exists"},
	{path: "nodeSelector", to: "{disk: ssd}", adds: "nodeSelector:\n        disk: ssd"},
	{
		path: "topologySpreadConstraints", adds: "topologyKey: rack",
		to: "[{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]",
	},
	{path: "priorityClassName", to: "important", adds: "priorityClassName: important"},
	{path: "podAnnotations", to: "{team: a}", adds: "annotations:\n        team: a"},
	{path: "podLabels", to: "{team: a}", adds: "labels:\n        team: a"},
	{path: "logging.format", to: "text", adds: "--logging-format=text"},
	{path: "logging.verbosity", to: "4", adds: "-v=4"},
	{path: "metrics.enabled", to: "false", adds: "--metrics-bind-address=0", removes: "demoapp-controller-metrics"},
	{path: "metrics.certSecret", to: "tls", with: "{metrics: {secure: true}}", adds: "--metrics-cert-dir=/etc/demoapp-controller/metrics"},
	{path: "metrics.secure", to: "true", adds: "--metrics-secure", removes: "containerPort: 8080"},
	{path: "serviceMonitor.enabled", to: "true", adds: "kind: ServiceMonitor"},
	{path: "serviceMonitor.interval", to: "17s", with: monitored, adds: "interval: 17s"},
	{
		path: "serviceMonitor.tlsConfig", to: "{serverName: operator}", with: scraped,
		adds: "serverName: operator", removes: "insecureSkipVerify",
	},
	{
		path: "serviceMonitor.authorization", to: "{credentials: {name: scraper, key: token}}", with: scraped,
		adds: "authorization:\n      credentials:\n        key: token\n        name: scraper", removes: "bearerTokenFile",
	},
	{path: "serviceMonitor.labels", to: "{release: prometheus}", with: monitored, adds: "release: prometheus"},
	{path: "prometheusRule.enabled", to: "true", adds: "kind: PrometheusRule"},
	{path: "prometheusRule.labels", to: "{release: prometheus}", with: monitored, adds: "release: prometheus"},
	{path: "grafanaDashboard.enabled", to: "true", adds: "demoapp-controller-dashboard-operator"},
	{path: "grafanaDashboard.labels", to: "{dashboard: 'yes'}", with: monitored, adds: `dashboard: "yes"`},
	{path: "grafanaDashboard.annotations", to: "{folder: Operators}", with: monitored, adds: "folder: Operators"},
	{path: "webhook.enabled", to: "true", with: "{kinds: [webapp]}", adds: "kind: ValidatingWebhookConfiguration"},
	{path: "webhook.approvedRegistries", to: "[docker.io/library]", with: admission, adds: "--approved-registries=docker.io/library"},
	{
		path: "webhook.certManager.enabled", to: "true", with: "{kinds: [webapp], webhook: {enabled: true}}",
		adds: "kind: Certificate", removes: "name: demoapp-controller-webapp-admission",
	},
	{path: "webhook.certManager.issuerRef.name", to: "ca", with: admission, adds: "name: ca", removes: "kind: Issuer\nmetadata"},
	{path: "webhook.certManager.issuerRef.kind", to: "ClusterIssuer", with: admission, adds: "kind: ClusterIssuer"},
	{path: "webhook.certManager.issuerRef.group", to: "issuers.example.com", with: admission, adds: "group: issuers.example.com"},
	{path: "watches", to: "[" + entry + "]", adds: "--watches-file=/etc/demoapp-controller/watches/watches.yaml"},
	{path: "extraArgs", to: "['--workers=20']", adds: "- --workers=20"},
	{path: "extraEnv", to: "[{name: HTTPS_PROXY, value: 'http://proxy:3128'}]", adds: "name: HTTPS_PROXY"},
	{path: "extraVolumes", to: "[{name: tmp, emptyDir: {}}]", adds: "name: tmp"},
	{path: "extraVolumeMounts", to: "[{name: tmp, mountPath: /tmp}]", adds: "mountPath: /tmp"},
}

var digest = strings.Repeat("0123456789abcdef", 4)

// TestEveryValueHasAnEffect asserts that each value of values.yaml changes the rendered chart, and
// is in the table.
func TestEveryValueHasAnEffect(t *testing.T) {
	var tested []string
	// Most tests begin with the same values.
	rendered := map[string]string{}
	for _, test := range effects {
		tested = append(tested, test.path)
		t.Run(test.path, func(t *testing.T) {
			given := values{}
			if test.with != "" {
				given = parse[values](t, test.with)
			}
			if rendered[test.with] == "" {
				rendered[test.with] = manifest(t, given)
			}
			before := rendered[test.with]

			after := manifest(t, set(given, parse[any](t, test.to), strings.Split(test.path, ".")...))

			if test.adds == "" && test.removes == "" {
				t.Error("the table does not say what changes")
			}
			if strings.Contains(before, test.adds) && test.adds != "" || !strings.Contains(after, test.adds) {
				t.Errorf("the value does not add %q", test.adds)
			}
			if test.removes != "" && (!strings.Contains(before, test.removes) || strings.Contains(after, test.removes)) {
				t.Errorf("the value does not remove %q", test.removes)
			}
		})
	}

	for _, path := range leaves(t) {
		if !slices.Contains(tested, path) {
			t.Errorf("values.yaml: no test changes %s", path)
		}
	}
}

// TestImage asserts that the image of a chart without values has the version in appVersion.
func TestImage(t *testing.T) {
	version := loadChart(t).Metadata.AppVersion

	rendered := manifest(t, nil)

	if !strings.Contains(rendered, "image: demoapp-controller:"+version+"\n") {
		t.Errorf("the image does not have the tag %s", version)
	}
}

// TestGOMEMLIMIT asserts that GOMEMLIMIT is nine tenths of the limit, whatever its unit, and
// that extraEnv replaces GOMEMLIMIT.
func TestGOMEMLIMIT(t *testing.T) {
	tests := []struct{ limit, env, want string }{
		{limit: "512Mi", want: "460MiB"},
		{limit: "1Gi", want: "921MiB"},
		{limit: "1.5Gi", want: "1382MiB"},
		{limit: "500M", want: "429MiB"},
		{limit: "134217728", want: "115MiB"},
		{limit: "512Mi", env: "off", want: "\"off\""},
		{limit: "null", want: ""},
	}
	for _, test := range tests {
		t.Run(test.limit+test.env, func(t *testing.T) {
			given := parse[values](t, "{resources: {limits: {memory: "+test.limit+"}}}")
			if test.env != "" {
				given["extraEnv"] = []any{values{"name": "GOMEMLIMIT", "value": test.env}}
			}

			rendered := manifest(t, given)

			if got := strings.Count(rendered, "name: GOMEMLIMIT"); got > 1 || got == 1 != (test.want != "") {
				t.Fatalf("GOMEMLIMIT is there %d times", got)
			}
			if test.want != "" && !strings.Contains(rendered, "value: "+test.want) {
				t.Errorf("GOMEMLIMIT is not %s", test.want)
			}
		})
	}
}

// manifest returns the chart as rendered with values, which must be valid.
func manifest(t *testing.T, given values) string {
	t.Helper()
	release, err := renderRelease(t, releaseName, namespace, given)
	if err != nil {
		t.Fatal(err)
	}
	return release.Manifest
}

// leaves returns the paths of all values of values.yaml that have no further values.
func leaves(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The labels of dashboards are one value.
	return slices.DeleteFunc(append(walk(parse[values](t, string(content)), ""), "grafanaDashboard.labels"), func(path string) bool {
		return strings.HasPrefix(path, "grafanaDashboard.labels.")
	})
}

func walk(given values, prefix string) []string {
	var paths []string
	for key, value := range given {
		if inner, ok := value.(values); ok && len(inner) > 0 {
			paths = append(paths, walk(inner, prefix+key+".")...)
		} else {
			paths = append(paths, prefix+key)
		}
	}
	return paths
}

// set returns a copy of values with a value at a path.
func set(given values, value any, path ...string) values {
	changed := maps.Clone(given)
	if changed == nil {
		changed = values{}
	}
	if len(path) == 1 {
		changed[path[0]] = value
		return changed
	}
	inner, _ := changed[path[0]].(values)
	changed[path[0]] = set(inner, value, path[1:]...)
	return changed
}

// parse decodes YAML.
func parse[T any](t testing.TB, text string) T {
	t.Helper()
	var decoded T
	if err := yaml.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return decoded
}

// TestShardsAreGranted asserts that the role has the Leases of all shards.
func TestShardsAreGranted(t *testing.T) {
	rendered := manifest(t, values{"shards": 2})

	want := "resourceNames:\n    - demoapp-controller\n    - demoapp-controller-shard-0\n    - demoapp-controller-shard-1\n"
	if !strings.Contains(rendered, want) {
		t.Errorf("the chart does not grant the Leases:\n%s", want)
	}
}
