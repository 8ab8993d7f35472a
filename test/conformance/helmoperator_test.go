// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/test/upstream"
)

// helmOperator is a client that keeps the release as operator-sdk's helm-operator and
// helm-operator-plugins do.
type helmOperator struct {
	*stock

	owner metav1.OwnerReference
}

// ownerName is the name of the owners of releases. They are ConfigMaps, which need no CRD.
const ownerName = "owner"

// newHelmOperator creates the owner of a release, and returns its operator, whose binary has the
// name.
func newHelmOperator(t testing.TB, namespace, binary string) *helmOperator {
	t.Helper()
	owner, err := shared.Client.CoreV1().ConfigMaps(namespace).
		Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ownerName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := &helmOperator{
		stock: newStock(t, namespace, &journal{}),
		owner: *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}
	o.clientSide = true
	player := upstream.Operator{Owner: o.owner, Namespace: namespace, Binary: binary}
	wrapConfig := o.flags.WrapConfigFn
	o.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config = wrapConfig(config)
		player.Wrap(config)
		return config
	}
	o.adapt = func(cfg *action.Configuration) { player.Adapt(cfg, shared.Client) }
	return o
}

// setStatus writes a status into the newest record, as an operation does that did not end.
func (o *helmOperator) setStatus(t *testing.T, status common.Status) {
	t.Helper()
	newest := newestRelease(t.Context(), t, o.namespace)
	newest.Info.Status = status
	if err := o.configuration().Releases.Update(newest); err != nil {
		t.Fatal(err)
	}
}

// live returns the objects of the release, by kind and name.
func (o *helmOperator) live(ctx context.Context, t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, p := range []place{
		{corev1.SchemeGroupVersion.WithResource("configmaps"), o.namespace},
		{corev1.SchemeGroupVersion.WithResource("services"), o.namespace},
		{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), o.namespace},
		{appsGroup.WithResource("deployments"), o.namespace},
		{appsGroup.WithResource("replicasets"), o.namespace},
		{batchGroup.WithResource("jobs"), o.namespace},
		{rbacGroup.WithResource("clusterroles"), ""},
	} {
		list, err := shared.Dynamic.Resource(p.GroupVersionResource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			ours := object.GetNamespace() != "" && object.GetName() != "kube-root-ca.crt" && object.GetName() != ownerName
			if ours || object.GetName() == fmt.Sprintf("%s-%s", o.namespace, releaseName) {
				found[object.GetKind()+" "+object.GetName()] = object
			}
		}
	}
	return found
}
