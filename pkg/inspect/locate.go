// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// located are the records of an object's release.
type located struct {
	// namespace and name identify the release.
	namespace, name string
	// records are sorted, the oldest first. They are empty without a release.
	records []corev1.Secret
	// tried are the names without a release of the object.
	tried []string
}

// newest returns the record of the newest revision.
func (l located) newest() *corev1.Secret { return &l.records[len(l.records)-1] }

// missing explains that there is no release.
func (l located) missing() string {
	where := "in namespace " + l.namespace
	if l.namespace == "" {
		where = "of it in any namespace"
	}
	return fmt.Sprintf("there is no release %s %s", strings.Join(l.tried, " or "), where)
}

// releaseNames returns the possible names of an object's release: the name in the status, the name of the
// object, and the name that operator-sdk before 1.0 gave.
func releaseNames(object *unstructured.Unstructured) []string {
	names := []string{object.GetName()}
	if deployed := StatusOf(object).Release.DeployedRelease; deployed != nil && deployed.Name != "" {
		names = []string{deployed.Name}
	}
	if legacy := helm.LegacyReleaseName(object.GetName(), object.GetUID()); legacy != "" {
		names = append(names, legacy)
	}
	return names
}

// locate finds the release of an object as the operator does: the first of its possible names under which
// the newest record names the object as its owner, or else the first name with records. Without a
// namespace, for a cluster-scoped object, only a release that names the object is found.
func (c *Cluster) locate(ctx context.Context, object *unstructured.Unstructured, namespace string, names []string) (located, error) {
	other := located{namespace: namespace}
	for _, name := range slices.Compact(slices.Clone(names)) {
		list, err := c.Kubernetes.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: record.SelectorOf(name)})
		if err != nil {
			return other, fmt.Errorf("read the records of release %s: %w", name, err)
		}
		byNamespace := map[string][]corev1.Secret{}
		for _, secret := range list.Items {
			if secret.DeletionTimestamp == nil && recordOf(secret) != nil { // Finalizers hold deleted records.
				byNamespace[secret.Namespace] = append(byNamespace[secret.Namespace], secret)
			}
		}
		for in, records := range byNamespace {
			slices.SortFunc(records, func(a, b corev1.Secret) int { return cmp.Compare(recordOf(a).Revision, recordOf(b).Revision) })
			found := located{namespace: in, name: name, records: records}
			owner := recordOf(*found.newest()).OwnerUID()
			if owner == object.GetUID() || owner == "" && name == helm.LegacyReleaseName(object.GetName(), object.GetUID()) {
				return found, nil
			}
			if namespace != "" && len(other.records) == 0 {
				other = found
			}
		}
		other.tried = append(other.tried, name)
	}
	return other, nil
}

// recordOf returns the record of a Secret without its content; nil for another Secret.
func recordOf(secret corev1.Secret) *record.Record {
	return record.Of(&metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta})
}
