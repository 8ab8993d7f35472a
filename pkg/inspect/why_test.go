// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// now is the time of all questions.
var now = time.Unix(1000, 0)

// notReady returns the YAML of a DemoApp web that is not ready.
func notReady(reason, message, more string) string {
	return fmt.Sprintf(`
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web, generation: 1}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: %s, message: %q, observedGeneration: 1}%s]}
`, reason, message, more)
}

// lease creates the operator's Lease with a report.
func lease(t *testing.T, cluster *inspect.Cluster, renewed time.Time) {
	t.Helper()
	object := leaseWith(`{"version":"v1","resources":["demoapps.demo.example.com"],"kinds":["Memcached.cache.my.domain"]}`)
	object.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("operator-1_a"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: renewed},
	}
	_, err := cluster.Kubernetes.CoordinationV1().Leases(object.Namespace).Create(t.Context(), object, metav1.CreateOptions{})
	expect.NoError(t, err)
}

func TestWhy(t *testing.T) {
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"
	stalled := `, {type: Stalled, status: "True", reason: A, message: b}`
	account := "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: deployer}\n"
	configMap := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"
	older := "---" + strings.Replace(notReady("SecretNotFound", `Secret "keys" does not exist`, ""), "name: web", "name: older", 1)
	terminating := "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [kubernetes]}\n"
	tests := []struct {
		name    string
		objects string
		renewed time.Time
		// want is the verdict, and the objects of the steps.
		want, command string
	}{
		{"quota", notReady("Refused", "is forbidden: exceeded quota: few, requested: pods=1", ""), now, "needs a person: DemoApp/web ResourceQuota/few", "kubectl get resourcequota -n shop"},
		{"webhook without a configuration", notReady("Refused", `admission webhook "a.example.com" denied the request: no`, ""), now, "needs a person: DemoApp/web AdmissionWebhook/a.example.com", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o wide"},
		{"permission", notReady("InstallFailed", `services is forbidden: User "deployer" cannot create resource "services"`, ""), now, "needs a person: DemoApp/web User/deployer", "kubectl auth can-i --list --as=deployer -n shop"},
		{
			"permission of a missing ServiceAccount", notReady("InstallFailed", `User "system:serviceaccount:shop:deployer" cannot get resource "secrets"`, ""), now,
			"needs a person: DemoApp/web ServiceAccount/deployer", "kubectl get serviceaccount -n shop",
		},
		{
			"permission of a ServiceAccount", notReady("InstallFailed", `User "system:serviceaccount:shop:deployer" cannot get resource "secrets"`, "") + account, now,
			"needs a person: DemoApp/web ServiceAccount/deployer", "kubectl auth can-i --list --as=system:serviceaccount:shop:deployer -n shop",
		},
		{
			"object of another owner", notReady("OwnershipConflict", `ConfigMap "web" exists and belongs to release old: delete or rename one of the two`, stalled) + configMap, now,
			"needs a person: DemoApp/web ConfigMap/web", "kubectl describe configmap web -n shop",
		},
		{
			"Secret of a Backup whose run failed", notReady("DestinationRefused", `bucket b refuses access: AccessDenied: correct the keys in Secret "keys"`, stalled) + secret, now,
			"needs a person: DemoApp/web Secret/keys", "kubectl describe secret keys -n shop",
		},
		{
			"object that cannot be created", notReady("OutOfScope", "ConfigMap default/a is out of scope: the release may have objects in namespace shop only", stalled), now,
			"needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop",
		},
		{
			"host of another object", notReady("HostTaken", `spec.ingress.host: a.example.com belongs to DemoApp "older": choose another host`, stalled) + older, now,
			"needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop",
		},
		{
			"dependency in turn without a Secret", notReady("WaitingForDependency", `waits for DemoApp "older"`, "") + older, now,
			"needs a person: DemoApp/web DemoApp/older Secret/keys", "kubectl create secret generic keys -n shop --from-literal=KEY=VALUE",
		},
		{"closed window", notReady("OutsideWindow", "opens at 02:00", ""), now, "waits: DemoApp/web", "kubectl demoapp retry demoapp/web -n shop"},
		{"halted rollout", notReady("RolloutHalted", "too many failed", ""), now, "needs a person: DemoApp/web", "kubectl demoapp retry demoapp/web -n shop"},
		{"takeover", notReady("TakeoverHeld", "it would delete Service shop/web", ""), now, "needs a person: DemoApp/web", "kubectl demoapp retry demoapp/web -n shop"},
		{"client that changes the release", notReady("ReleaseBusy", "pending-upgrade by another client", ""), now, "waits: DemoApp/web", "kubectl describe demoapp.demo.example.com web -n shop"},
		{
			"release of another owner", notReady("OwnershipConflict", `the release belongs to another owner: have it take over with the annotation demo.example.com/adopt-release: "true"`, stalled), now,
			"needs a person: DemoApp/web", "kubectl demoapp adopt demoapp/web -n shop",
		},
		{"suspended by its spec", notReady("Progressing", "", `, {type: Suspended, status: "True", reason: SuspendedBySpec, message: m}`), now, "needs a person: DemoApp/web", `kubectl patch demoapp.demo.example.com web -n shop --type=merge -p '{"spec":{"suspend":false}}'`},
		{"suspended by an annotation", notReady("Progressing", "", `, {type: Suspended, status: "True", reason: SuspendedByAnnotation, message: m}`), now, "needs a person: DemoApp/web", "kubectl annotate demoapp.demo.example.com web -n shop demo.example.com/paused-"},
		{"namespace that is being deleted", notReady("InstallFailed", `unable to create new content in namespace shop because it is being terminated`, "") + terminating, now, "needs a person: DemoApp/web Namespace/shop", "kubectl describe namespace shop"},
		{"record that is too large", notReady("ReleaseTooLarge", `the record of release web does not fit into a Secret: Secret "sh.helm.release.v1.web.v1" is invalid: data: Too long`, stalled), now, "needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop"},
		{"pod security", notReady("InstallFailed", `pods "web" is forbidden: violates PodSecurity "restricted:latest"`, ""), now, "needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop"},
		{"priority class", notReady("InstallFailed", "no PriorityClass with name high was found", ""), now, "needs a person: DemoApp/web PriorityClass/high", "kubectl get priorityclass"},
		{"admission policy", notReady("Refused", "ValidatingAdmissionPolicy 'no-services' with binding 'b' denied request: no", ""), now, "needs a person: DemoApp/web ValidatingAdmissionPolicy/no-services", "kubectl get validatingadmissionpolicy"},
		{"webhook that does not answer", notReady("Refused", `failed calling webhook "a.example.com": no`, ""), now, "needs a person: DemoApp/web AdmissionWebhook/a.example.com", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o wide"},
		{"kind", notReady("InstallFailed", `no matches for kind "Widget" in version "a.example.com/v1"`, ""), now, "needs a person: DemoApp/web CustomResourceDefinition/Widget", "kubectl api-resources"},
		{"immutable field", notReady("Refused", "spec.selector: field is immutable", stalled), now, "needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop"},
		{"missing key", notReady("SecretNotFound", `Secret "keys", which is to hold key "api", does not exist in this namespace`, ""), now, "needs a person: DemoApp/web Secret/keys", "kubectl create secret generic keys -n shop --from-literal=api=VALUE"},
		{"missing Secret", notReady("SecretNotFound", `Secret "keys" does not exist`, ""), now, "needs a person: DemoApp/web Secret/keys", "kubectl create secret generic keys -n shop --from-literal=KEY=VALUE"},
		{"key that a Secret lacks", notReady("KeyNotFound", `Secret "keys" has no key "api"`, "") + secret, now, "needs a person: DemoApp/web Secret/keys", "kubectl describe secret keys -n shop"},
		{"words that look like a kind", notReady("Progressing", `Values "keys" are read`, ""), now, "waits: DemoApp/web", "kubectl describe demoapp.demo.example.com web -n shop"},
		{"object that names itself", notReady("Progressing", `DemoApp "web" is installed`, ""), now, "waits: DemoApp/web", "kubectl describe demoapp.demo.example.com web -n shop"},
		{"license server that does not answer", notReady("LicenseUnavailable", "no answer", ""), now, "waits: DemoApp/web", "kubectl describe demoapp.demo.example.com web -n shop"},
		{"license that is denied", notReady("LicenseDenied", "no", ""), now, "needs a person: DemoApp/web", "kubectl describe demoapp.demo.example.com web -n shop"},
		{"operator that does not run", notReady("Progressing", "Available: 0/1", ""), now.Add(-time.Minute), "needs a person: DemoApp/web Lease/demoapp-controller", "kubectl get pods -n demoapp-system"},
		{"operator that does not matter", notReady("Refused", "spec.selector: field is immutable", stalled), now.Add(-time.Minute), "needs a person: DemoApp/web", "kubectl edit demoapp.demo.example.com web -n shop"},
		{"kind that the operator leaves out", "apiVersion: webapp.example.com/v1\nkind: Website\nmetadata: {name: web}\n", now, "needs a person: Website/web", "kubectl logs -n demoapp-system operator-1"},
		{
			"new object of a kind of watches.yaml", "apiVersion: cache.my.domain/v1\nkind: Memcached\nmetadata: {name: web, generation: 1, creationTimestamp: '1970-01-01T00:16:30Z'}\n",
			now, "waits: Memcached/web", "kubectl describe memcached.cache.my.domain web -n shop",
		},
		{
			"kind whose CRD drops the status", "apiVersion: cache.my.domain/v1\nkind: Memcached\nmetadata: {name: web, generation: 2, finalizers: [helm.sdk.operatorframework.io/uninstall-release]}\n",
			now, "needs a person: Memcached/web", "kubectl get customresourcedefinition memcacheds.cache.my.domain -o yaml",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, _ := treeCluster(t, tt.objects)
			lease(t, cluster, tt.renewed)
			word := "demoapp"
			for _, other := range []string{"Website", "Memcached"} {
				if strings.Contains(tt.objects, "kind: "+other) {
					word = other
				}
			}
			kind, err := cluster.Kind(t.Context(), word)
			expect.NoError(t, err)

			got, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

			expect.NoError(t, err)
			answer := got.Verdict.String() + ":"
			for _, step := range got.Steps {
				answer += " " + step.Object.String()
			}
			expect.Equal(t, "answer", tt.want, answer)
			expect.Equal(t, "command", tt.command, got.Commands[0])
		})
	}
}

// TestWhyNamesMissingPermissions holds that a user of one namespace gets an answer.
func TestWhyNamesMissingPermissions(t *testing.T) {
	cluster, client := treeCluster(t, notReady("Progressing", `Secret "keys" has no key`, ""))
	client.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "keys", fmt.Errorf("not allowed"))
	})
	kube, ok := cluster.Kubernetes.(interface {
		PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	})
	if !ok {
		t.Fatal("the clientset takes no reactors")
	}
	kube.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", fmt.Errorf("not allowed"))
	})
	kind, err := cluster.Kind(t.Context(), "demoapp")
	expect.NoError(t, err)

	got, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

	expect.NoError(t, err)
	expect.Equal(t, "cause", "Secret/keys", got.Cause().Object.String())
	expect.Contains(t, "notes", strings.Join(got.Notes, "\n"), "leases.coordination.k8s.io is forbidden",
		"kubectl get lease demoapp-controller -n demoapp-system", "kubectl describe secret keys -n shop")
}

// TestWhyOfReadyObjectReadsNothingElse: objects below a ready object are not read.
func TestWhyOfReadyObjectReadsNothingElse(t *testing.T) {
	cluster, client := treeCluster(t, release)
	kind, err := cluster.Kind(t.Context(), "demoapp")
	expect.NoError(t, err)
	client.ClearActions()

	explanation, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

	expect.NoError(t, err)
	expect.Equal(t, "verdict", inspect.Ready, explanation.Verdict)
	expect.Equal(t, "requests", 1, len(client.Actions()))
}

// TestWhyOfReadyObjectThatIsSuspended: readiness hides that the operator leaves the object alone.
func TestWhyOfReadyObjectThatIsSuspended(t *testing.T) {
	suspended := notReady("Healthy", "Revision 1 is healthy", `, {type: Suspended, status: "True", reason: SuspendedBySpec, message: for maintenance}`)
	cluster, _ := treeCluster(t, strings.Replace(suspended, `"False"`, `"True"`, 1))
	kind, err := cluster.Kind(t.Context(), "demoapp")
	expect.NoError(t, err)

	explanation, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

	expect.NoError(t, err)
	expect.Equal(t, "verdict", inspect.Ready, explanation.Verdict)
	expect.Equal(t, "text", "Revision 1 is healthy; suspended: for maintenance", explanation.Cause().Text)
}

// TestWhyOfReadyObjectWithHeldTemplate: readiness hides that the pods keep an older template.
func TestWhyOfReadyObjectWithHeldTemplate(t *testing.T) {
	const force = `kubectl annotate website.webapp.example.com web -n shop demo.example.com/force-at="$(date)" --overwrite`
	tests := map[string]struct {
		held, text string
		commands   []string
	}{
		"RolloutQueued":  {`"True"`, "All pods run; RolloutQueued: m", []string{force}},
		"RolloutHalted":  {`"True"`, "All pods run; RolloutHalted: m", []string{force}},
		"AwaitingChange": {`"True"`, "All pods run; AwaitingChange: m", []string{force}},
		"RolloutActive":  {`"False"`, "All pods run", nil},
	}
	for reason, test := range tests {
		t.Run(reason, func(t *testing.T) {
			cluster, _ := treeCluster(t, fmt.Sprintf(`
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: web, generation: 1}
status:
  conditions:
  - {type: Ready, status: "True", reason: Healthy, message: All pods run, observedGeneration: 1}
  - {type: UpgradeHeld, status: %s, reason: %s, message: m, observedGeneration: 1}
`, test.held, reason))
			kind, err := cluster.Kind(t.Context(), "Website")
			expect.NoError(t, err)

			explanation, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

			expect.NoError(t, err)
			expect.Equal(t, "verdict", inspect.Ready, explanation.Verdict)
			expect.Equal(t, "text", test.text, explanation.Cause().Text)
			expect.Equal(t, "commands", test.commands, explanation.Commands)
		})
	}
}

// TestWhyOfReadyDatabaseWithoutBackups: readiness hides that nothing is backed up. The condition decides, not the kind.
func TestWhyOfReadyDatabaseWithoutBackups(t *testing.T) {
	cluster, _ := treeCluster(t, `
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: web, generation: 1}
status:
  observedGeneration: 1
  conditions:
  - {type: Ready, status: "True", reason: Healthy, message: All pods run, observedGeneration: 1}
  - {type: BackupConfigured, status: "False", reason: NoDestination, message: nothing is backed up, observedGeneration: 1}
`)
	kind, err := cluster.Kind(t.Context(), "Website")
	expect.NoError(t, err)

	explanation, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

	expect.NoError(t, err)
	expect.Equal(t, "verdict", inspect.Ready, explanation.Verdict)
	expect.Equal(t, "text", "All pods run; NoDestination: nothing is backed up", explanation.Cause().Text)
	expect.Equal(t, "commands", []string{"kubectl edit website.webapp.example.com web -n shop"}, explanation.Commands)
}

// TestWhyWithoutPermissions: the verdict does not depend on the permissions of the user, because
// the message of the owner names the pod and its problem.
func TestWhyWithoutPermissions(t *testing.T) {
	message := `Deployment "web": Available: 0/1: pod web-1: container "web": ImagePullBackOff: the image "web:1" cannot be pulled; check that the image exists`
	inventory := "], inventory: [{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}"
	objects := notReady("Progressing", message, inventory) + `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: dep, generation: 1}
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}
`
	for _, resource := range []string{"deployments", "replicasets"} {
		t.Run(resource, func(t *testing.T) {
			cluster, client := treeCluster(t, objects)
			client.PrependReactor("*", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", fmt.Errorf("not allowed"))
			})
			kind, err := cluster.Kind(t.Context(), "demoapp")
			expect.NoError(t, err)

			explanation, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

			expect.NoError(t, err)
			expect.Equal(t, "verdict", inspect.NeedsPerson, explanation.Verdict)
			expect.Equal(t, "cause", "Pod/web-1", explanation.Cause().Object.String())
			expect.Contains(t, "text", explanation.Cause().Text, `container "web": ImagePullBackOff`, "check that the image exists")
			expect.Contains(t, "notes", strings.Join(explanation.Notes, "\n"), resource, "not allowed")
		})
	}
}
