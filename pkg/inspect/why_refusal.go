// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/refusal"
)

// knownRefusal says what to do about a refusal of the API server. If kind is set, the subject of the text
// is the name of the object that refuses, or lacks something.
type knownRefusal struct {
	text refusal.Text
	kind schema.GroupVersionKind
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

// refusals are tried in order.
var refusals = []knownRefusal{
	{refusal.QuotaExceeded, quotas, false, NeedsPerson, "describe"},
	{refusal.QuotaUnspecified, quotas, false, NeedsPerson, "describe"},
	{refusal.WebhookDenied, webhooks, true, NeedsPerson, ""},
	{refusal.WebhookFailed, webhooks, true, NeedsPerson, ""},
	{refusal.PolicyDenied, policies, true, NeedsPerson, "describe"},
	{refusal.NamespaceTerminating, namespaces, true, NeedsPerson, "describe"},
	{refusal.NamespaceMissing, namespaces, true, NeedsPerson, "get"},
	{refusal.ServiceAccountMissing, serviceAccounts, false, NeedsPerson, "get"},
	{refusal.PriorityClassMissing, priorityClasses, true, NeedsPerson, "get"},
	{refusal.KindMissing, crds, true, NeedsPerson, "get"},
	{refusal.PermissionMissing, users, true, NeedsPerson, ""},
	{refusal.PodSecurityViolated, schema.GroupVersionKind{}, false, NeedsPerson, ""},
	{refusal.LimitExceeded, schema.GroupVersionKind{}, false, NeedsPerson, ""},
	{refusal.Immutable, schema.GroupVersionKind{}, false, NeedsPerson, ""},
	{refusal.PortAllocated, schema.GroupVersionKind{}, false, NeedsPerson, ""},
}

// refusalOf returns the meaning of a text of the API server about a refused object.
func refusalOf(node *Node, text string) (finding, bool) {
	for _, r := range refusals {
		if !r.text.In(text) {
			continue
		}
		subject := r.text.Subject(text)
		found := finding{verdict: r.verdict, text: text, commands: []string{kubectl("edit", node.Reference)}}
		switch r.kind {
		case webhooks:
			found.commands = []string{"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o wide"}
			found.next = &Reference{GroupVersionKind: webhooks, Name: subject}
		case users:
			found.commands = []string{"kubectl auth can-i --list --as=" + subject + " -n " + node.Namespace}
			found.next = account(subject)
			found.blamed = true
		case crds:
			found.commands = []string{"kubectl api-resources"}
			found.next = &Reference{GroupVersionKind: crds, Name: subject}
		case schema.GroupVersionKind{}:
		default:
			next := Reference{r.kind, node.Namespace, subject}
			if r.clusterScoped {
				next.Namespace = ""
			}
			found.next, found.commands = &next, []string{kubectl(r.verb, next)}
			// A namespace that is being deleted says why its deletion waits.
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
