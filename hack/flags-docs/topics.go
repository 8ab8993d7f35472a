// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// topic is a section of the page.
type topic struct {
	title, introduction string
	// names are the flags of the topic, and prefixes the beginnings of the names of further flags.
	names, prefixes []string
}

var topics = []topic{
	{
		title: "Scope", introduction: "Where the operator works, and on which kinds.",
		names: []string{"kubeconfig", "namespaces", "allow-system-namespaces", "controllers", "cluster-domain"},
	},
	{
		title: "Work", introduction: "How much the operator does at a time, and how often. See [capacity](capacity.md).",
		names: []string{"workers", "resync-period", "shutdown-timeout"},
	},
	{
		title: "Policies", introduction: "Rules of the cluster's administrators for all DemoApps, WebApps and PostgreSQLs. See [gates](gates.md).",
		names: []string{"allowed-registries", "shared-dependencies", "blocked-images", "webapp-cleanup-url", "platform-hosts", "image-registry", "images", "default-backup-destination"},
		prefixes: []string{
			"license-", "max-concurrent-rollouts", "rollout-",
		},
	},
	{
		title: "Audit records", introduction: "Records of deleted DemoApps. See [security](security.md#audit-records).",
		prefixes: []string{"audit-"},
	},
	{
		title: "Kinds of watches.yaml", introduction: "Further kinds, each from a chart. See [watches.yaml](watches.md).",
		names: []string{"watches-file", "chart-cache-dir", "registry-config", "status-manifest"},
	},
	{
		title: "Admission webhook", introduction: "The webhook of WebApps, which is off by default. See [admission](admission.md).",
		names: []string{"approved-registries"}, prefixes: []string{"webhook-"},
	},
	{
		title:        "Leader election",
		introduction: "One replica works, and the rest wait for its lease. With `--shards`, [all replicas work](scale.md).",
		names:        []string{"leader-elect", "shards"}, prefixes: []string{"leader-elect-"},
	},
	{
		title: "Endpoints", introduction: "What the operator serves. See [ports](security.md#ports).",
		prefixes: []string{"metrics-", "health-", "pprof-"},
	},
	{
		title: "Logs", introduction: "The operator logs to standard error.",
		names: []string{"v"}, prefixes: []string{"logging-", "log-"},
	},
}

// explanations are further sentences on single flags, in Markdown. They are too long for a usage
// text.
var explanations = map[string]string{
	"namespaces": "DemoAppClusters also need [nodes](demoappcluster.md#permissions), and `spec.ingress` needs " +
		"[other cluster-scoped objects](ingress.md#what-the-cluster-supports).",
	"controllers":                "The name of a Go kind is in lower case: `--controllers=*,-website` runs all kinds but Website.",
	"resync-period":              "A resync checks everything of an object that no event has touched.",
	"audit-retention":            "Contents and limits are in [audit records](security.md#audit-records).",
	"license-url":                "See [license server](gates.md#license-server).",
	"license-retry":              "The same time passes after a denial and after an invalid answer.",
	"max-concurrent-rollouts":    "See [rollout of a change of the operator](gates.md#rollout-of-a-change-of-the-operator).",
	"rollout-failure-threshold":  "See [rollout of a change of the operator](gates.md#rollout-of-a-change-of-the-operator).",
	"allowed-registries":         "See [validation](gates.md#validation).",
	"webapp-cleanup-url":         "See [cleanup hook](webapp.md#cleanup-hook).",
	"blocked-images":             "See [blocked images](webapp.md#blocked-images).",
	"platform-hosts":             "See [the host is taken](ecommerceplatform.md#the-host-is-taken).",
	"default-backup-destination": "See [backups by default](backup.md#backups-by-default).",
	"image-registry":             "See [images](production.md#images).",
	"images":                     "See [images](production.md#images).",
	"webhook-cert-dir":           "See [certificates](admission.md#certificates).",
	"leader-elect-renew-deadline": "It must be shorter than `--leader-elect-lease-duration`, because otherwise two replicas could " +
		"lead at a time.",
	"health-probe-bind-address": "`/healthz`: the process lives. `/readyz`: the role has all rules, a kind runs, the caches of those that run are synced, and the " +
		"webhook has a certificate.",
	"shutdown-timeout": "After it, the operator exits with an error, and the next leader continues the work in flight.",
	"v":                "Higher levels would log the contents of Secrets, and are refused.",
}

// topicOf returns the index of the topic of a flag, or -1.
func topicOf(topics []topic, name string) int {
	return slices.IndexFunc(topics, func(topic topic) bool {
		return slices.Contains(topic.names, name) ||
			slices.ContainsFunc(topic.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
