// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

// InputsLabel is the engine's label on a release record with the digest of its inputs.
const InputsLabel = "engine.demo.example.com/inputs"

// tenantName is the name of the ServiceAccount, the Role and the bindings of a tenant.
const tenantName = "tenant"

// Tenant may edit one namespace. It is a ServiceAccount with the ClusterRole edit in that
// namespace, and with all verbs on some resources of the operator's API group.
type Tenant struct {
	// Client, Dynamic and Demo act as the tenant.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Demo    democlient.DemoV1alpha1Interface
	// Kubeconfig is the path of a kubeconfig file that acts as the tenant.
	Kubeconfig string

	t         testing.TB
	namespace *Namespace
}

// AddTenant creates a tenant of the namespace with all verbs on these resources of the operator's
// API group. If demoapps are among them, the namespace creates, changes and deletes its DemoApps as
// that tenant from then on.
func (n *Namespace) AddTenant(resources ...string) *Tenant {
	n.t.Helper()
	ctx := n.t.Context()
	_, err := n.Cluster.Client.CoreV1().ServiceAccounts(n.Name).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: tenantName}}, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.grant(resources)
	tenant := &Tenant{t: n.t, namespace: n, Kubeconfig: filepath.Join(n.t.TempDir(), "kubeconfig")}
	config, err := n.Cluster.ServiceAccountConfig(ctx, n.Name, tenantName)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Cluster.WriteServiceAccountKubeconfig(ctx, n.Name, tenantName, tenant.Kubeconfig); err != nil {
		n.t.Fatal(err)
	}
	if tenant.Client, err = kubernetes.NewForConfig(config); err != nil {
		n.t.Fatal(err)
	}
	if tenant.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		n.t.Fatal(err)
	}
	demo, err := versioned.NewForConfig(config)
	if err != nil {
		n.t.Fatal(err)
	}
	tenant.Demo = demo.DemoV1alpha1()
	tenant.awaitRights(resources)
	if slices.Contains(resources, "demoapps") {
		n.Demo = tenant.Demo.DemoApps(n.Name)
	}
	return tenant
}

func (n *Namespace) grant(resources []string) {
	n.t.Helper()
	client := n.Cluster.Client.RbacV1()
	_, err := client.Roles(n.Name).Create(n.t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: tenantName},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: resources, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	for name, role := range map[string]rbacv1.RoleRef{
		tenantName:           {APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenantName},
		tenantName + "-edit": {APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	} {
		_, err := client.RoleBindings(n.Name).Create(n.t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: role,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.Name, Name: tenantName}},
		}, metav1.CreateOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// awaitRights waits until the bindings are in force, and asserts that the tenant may write in no
// other namespace.
func (t *Tenant) awaitRights(resources []string) {
	t.t.Helper()
	rights := []authorizationv1.ResourceAttributes{{Namespace: t.namespace.Name, Verb: "update", Resource: "secrets"}}
	for _, name := range resources {
		resource, subresource, _ := strings.Cut(name, "/")
		rights = append(rights, authorizationv1.ResourceAttributes{
			Namespace: t.namespace.Name, Verb: "patch", Group: v1alpha1.GroupVersion.Group, Resource: resource, Subresource: subresource,
		})
	}
	for _, right := range rights {
		cluster.Eventually(t.t.Context(), t.t, fmt.Sprintf("the tenant may %s %s", right.Verb, right.Resource), func(ctx context.Context) (bool, error) {
			return t.may(ctx, right)
		})
	}
	elsewhere := authorizationv1.ResourceAttributes{Namespace: metav1.NamespaceDefault, Verb: "update", Resource: "configmaps"}
	if allowed, err := t.may(t.t.Context(), elsewhere); err != nil || allowed {
		t.t.Fatalf("the tenant may write to namespace %s: %t (%v)", elsewhere.Namespace, allowed, err)
	}
}

func (t *Tenant) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review, err := t.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// DeleteService deletes the Service of a DemoApp, and waits until the operator has recreated it.
func (t *Tenant) DeleteService(name string) {
	t.t.Helper()
	services := t.Client.CoreV1().Services(t.namespace.Name)
	before, err := services.Get(t.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.t.Fatal(err)
	}
	if err := services.Delete(t.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.t.Fatal(err)
	}
	cluster.Eventually(t.t.Context(), t.t, "Service "+name+" made again", func(ctx context.Context) (bool, error) {
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		return err == nil && service.UID != before.UID, err
	})
}

// AwaitFromChart waits until a DemoApp is ready and its newest revision is deployed and rendered
// from the chart. Such a revision has no object "intruder", the name of forged objects.
func (n *Namespace) AwaitFromChart(name string) {
	n.t.Helper()
	what := fmt.Sprintf("DemoApp %s/%s ready, with a release that is rendered from the chart", n.Name, name)
	cluster.Eventually(n.t.Context(), n.t, what, func(context.Context) (bool, error) {
		version, ok, _ := n.history.latest(name)
		records := n.Records(name)
		if !ok || !IsReady(version.App) || len(records) == 0 {
			return false, fmt.Errorf("%d release records; the DemoApp: %s", len(records), n.describe(name))
		}
		newest := records[len(records)-1]
		if newest.Status != "deployed" || Revision(version.App) != int64(newest.Revision) {
			return false, fmt.Errorf("the status has revision %d, the newest record is %s", Revision(version.App), newest)
		}
		content, err := decodeRecord(&newest.Secret)
		if err != nil {
			return false, fmt.Errorf("read %s: %w", newest, err)
		}
		manifest, _ := content["manifest"].(string)
		if strings.Contains(manifest, "intruder") || !strings.Contains(manifest, "kind: Deployment") {
			return false, fmt.Errorf("the manifest of %s is not the chart's:\n%s", newest, manifest)
		}
		return true, nil
	})
}

// EditRecord changes the content of a release record, which is Helm's JSON.
func (t *Tenant) EditRecord(release string, revision int, change func(content map[string]any)) {
	t.t.Helper()
	t.UpdateRecord(release, revision, func(secret *corev1.Secret) {
		content := DecodeRecord(t.t, secret)
		change(content)
		secret.Data["release"] = EncodeRecord(t.t, content)
	})
}

// UpdateRecord changes the Secret of a release record.
func (t *Tenant) UpdateRecord(release string, revision int, change func(*corev1.Secret)) {
	t.t.Helper()
	secrets := t.Client.CoreV1().Secrets(t.namespace.Name)
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		secret, err := secrets.Get(t.t.Context(), RecordName(release, revision), metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(secret)
		_, err = secrets.Update(t.t.Context(), secret, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.t.Fatalf("change revision %d of release %s: %v", revision, release, err)
	}
}

// AddRecord creates a release record of a new revision from the record of an older one. Its labels
// claim that the engine created it.
func (t *Tenant) AddRecord(release string, from, revision int, change func(content map[string]any)) {
	t.t.Helper()
	secret := t.CopyRecord(release, from, revision)
	content := DecodeRecord(t.t, secret)
	content["version"] = revision
	change(content)
	secret.Data["release"] = EncodeRecord(t.t, content)
	t.CreateRecord(secret)
}

// CopyRecord returns the record of a release as the record of another revision, without creating it.
func (t *Tenant) CopyRecord(release string, from, revision int) *corev1.Secret {
	t.t.Helper()
	secret, err := t.Client.CoreV1().Secrets(t.namespace.Name).Get(t.t.Context(), RecordName(release, from), metav1.GetOptions{})
	if err != nil {
		t.t.Fatal(err)
	}
	secret.ObjectMeta = metav1.ObjectMeta{Name: RecordName(release, revision), Labels: secret.Labels, Annotations: secret.Annotations}
	secret.Labels["version"] = strconv.Itoa(revision)
	_, inputs, _ := strings.Cut(secret.Labels[InputsLabel], "-")
	secret.Labels[InputsLabel] = fmt.Sprintf("%d-%s", revision, inputs)
	return secret
}

// CreateRecord creates the Secret of a release record.
func (t *Tenant) CreateRecord(secret *corev1.Secret) {
	t.t.Helper()
	if _, err := t.Client.CoreV1().Secrets(t.namespace.Name).Create(t.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.t.Fatalf("create release record %s: %v", secret.Name, err)
	}
}

// RecordName is the name of the Secret of a release record.
func RecordName(release string, revision int) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, revision)
}

// DecodeRecord returns the content of a release record: JSON, compressed, in base64.
func DecodeRecord(t testing.TB, secret *corev1.Secret) map[string]any {
	t.Helper()
	content, err := decodeRecord(secret)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// maxRecord bounds the content of a record, in bytes.
const maxRecord = 4 << 20

func decodeRecord(secret *corev1.Secret) (content map[string]any, err error) {
	compressed, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxRecord))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	return content, nil
}

// EncodeRecord is the inverse of DecodeRecord.
func EncodeRecord(t testing.TB, content map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return CompressRecord(t, text)
}

// CompressRecord returns a text, which need not be JSON, in the form of a release record. The text
// is compressed for speed: with the race detector, better compression of 100 MiB takes 20 s.
func CompressRecord(t testing.TB, text []byte) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))
}
