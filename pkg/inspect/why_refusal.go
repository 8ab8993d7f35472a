// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal recognizes a refusal of the API server by its text. The first group of the expression is
// the name of the object that refuses, or lacks something, if kind is set.
type refusal struct {
	pattern *regexp.Regexp
	kind    schema.GroupVersionKind
	// clusterScoped is set for kinds without a namespace.
	clusterScoped bool
	verdict       Verdict
	// verb is the kubectl command about the object; empty for "edit" of the refused object.
	verb string
}

var (
	quotas          = schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}
	namespaces      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	serviceAccounts = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	configMaps      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	nodes           = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	claims          = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	crds            = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	priorityClasses = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}
	storageClasses  = schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}
	policies        = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}
	// webhooks and users are no objects of the API: only their names are known.
	webhooks = schema.GroupVersionKind{Kind: "AdmissionWebhook"}
	users    = schema.GroupVersionKind{Kind: "User"}
)

// accountPrefix begins the user name of a ServiceAccount, which ends with its namespace and name.
const accountPrefix = "system:serviceaccount:"

// refusals are tried in order. The texts are those of Kubernetes' API server and its admission
// plugins, which have no machine-readable form in messages.
var refusals = []refusal{
	{regexp.MustCompile(`exceeded quota: ([^,\s]+)`), quotas, false, NeedsPerson, "describe"},
	{regexp.MustCompile(`failed quota: ([^:\s]+): must specify`), quotas, false, NeedsPerson, "describe"},
	{regexp.MustCompile(`[Aa]dmission webhook "([^"]+)" denied`), webhooks, true, NeedsPerson, ""},
	{regexp.MustCompile(`failed calling webhook "([^"]+)"`), webhooks, true, NeedsPerson, ""},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' .*denied`), policies, true, NeedsPerson, "describe"},
	{regexp.MustCompile(`namespace "?([a-z0-9-]+)"? because it is being terminated`), namespaces, true, NeedsPerson, "describe"},
	{regexp.MustCompile(`namespaces "([a-z0-9-]+)" not found`), namespaces, true, NeedsPerson, "get"},
	{regexp.MustCompile(`serviceaccounts? "([^"]+)" not found`), serviceAccounts, false, NeedsPerson, "get"},
	{regexp.MustCompile(`no PriorityClass with name (\S+) was found`), priorityClasses, true, NeedsPerson, "get"},
	{regexp.MustCompile(`no matches for kind "([^"]+)"`), crds, true, NeedsPerson, "get"},
	{regexp.MustCompile(`User "([^"]+)" cannot (?:create|get|list|watch|update|patch|delete|impersonate)`), users, true, NeedsPerson, ""},
	{regexp.MustCompile(`violates PodSecurity`), schema.GroupVersionKind{}, false, NeedsPerson, ""},
	{regexp.MustCompile(`(?:minimum|maximum) \S+ usage per \S+ is`), schema.GroupVersionKind{}, false, NeedsPerson, ""},
	{regexp.MustCompile(`field is immutable|may not be changed|provided port is already allocated|updates to statefulset spec`), schema.GroupVersionKind{}, false, NeedsPerson, ""},
}

// refusalOf returns what a text of the API server says about a refused object.
func refusalOf(node *Node, text string) (finding, bool) {
	for _, r := range refusals {
		match := r.pattern.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		found := finding{verdict: r.verdict, text: text, commands: []string{kubectl("edit", node.Reference)}}
		switch r.kind {
		case webhooks:
			found.commands = []string{"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o wide"}
			found.next = &Reference{GroupVersionKind: webhooks, Name: match[1]}
		case users:
			found.commands = []string{"kubectl auth can-i --list --as=" + match[1] + " -n " + node.Namespace}
			found.next = account(match[1])
			found.blamed = true
		case crds:
			found.commands = []string{"kubectl api-resources"}
			found.next = &Reference{GroupVersionKind: crds, Name: match[1]}
		case schema.GroupVersionKind{}:
		default:
			next := Reference{r.kind, node.Namespace, match[1]}
			if r.clusterScoped {
				next.Namespace = ""
			}
			found.next, found.commands = &next, []string{kubectl(r.verb, next)}
			// A namespace that is being deleted says what its deletion waits for.
			found.blamed = r.kind != namespaces
		}
		return found, true
	}
	return finding{}, false
}

// account returns the ServiceAccount with a user name, or the user.
func account(user string) *Reference {
	if rest, ok := strings.CutPrefix(user, accountPrefix); ok {
		namespace, name, _ := strings.Cut(rest, ":")
		return &Reference{serviceAccounts, namespace, name}
	}
	return &Reference{GroupVersionKind: users, Name: user}
}
