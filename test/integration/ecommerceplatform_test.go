// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	platformclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/platform/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// installServiceMonitors installs the CRD for the monitoring of a platform.
var installServiceMonitors = sync.OnceValue(func() error {
	return shared.InstallCRDs(context.Background(), "test/integration/testdata/servicemonitor-crd.yaml")
})

var serviceMonitors = schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}

// shops is a namespace for the EcommercePlatform "shop", with a volume for each of three servers.
// The test reports the status of their PostgreSQLs.
type shops struct {
	*plain[*platformv1.EcommercePlatform]
}

func newShops(t *testing.T) *shops {
	t.Helper()
	s := newUnmonitoredShops(t)
	if err := installServiceMonitors(); err != nil {
		t.Fatal(err)
	}
	return s
}

// newUnmonitoredShops is newShops, without the kind ServiceMonitor.
func newUnmonitoredShops(t *testing.T) *shops {
	t.Helper()
	s := &shops{newPlain[*platformv1.EcommercePlatform](t, "shop",
		func(client *versioned.Clientset, namespace string) platformclient.EcommercePlatformInterface {
			return client.PlatformV1().EcommercePlatforms(namespace)
		}, "postgresql", "backup", "ecommerceplatform")}
	for ordinal := range 3 {
		shared.Volume(t, s.namespace, fmt.Sprintf("data-shop-db-%d", ordinal), "100Gi")
	}
	return s
}

// create creates the platform "shop".
func (s *shops) create(change ...func(*platformv1.EcommercePlatformSpec)) {
	s.t.Helper()
	shop := &platformv1.EcommercePlatform{Spec: platformv1.EcommercePlatformSpec{
		Frontend: platformv1.PlatformComponent{Image: "frontend:1"}, Backend: platformv1.PlatformComponent{Image: "backend:1"},
	}}
	for _, c := range change {
		c(&shop.Spec)
	}
	s.add(shop)
}

func shopHost(host string) func(*platformv1.EcommercePlatformSpec) {
	return func(spec *platformv1.EcommercePlatformSpec) { spec.Ingress = &platformv1.PlatformIngress{Host: host} }
}

func shopInProduction(spec *platformv1.EcommercePlatformSpec) {
	two, off := int32(2), false
	spec.Environment, spec.Backend.Replicas = platformv1.EnvironmentProduction, &two
	spec.Database.Backup = &platformv1.PlatformBackup{Enabled: &off}
}

// change sends a merge patch of the spec.
func (s *shops) change(spec string) error {
	_, err := s.objects.Patch(s.t.Context(), "shop", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":%s}`, spec), metav1.PatchOptions{})
	return err
}

func (s *shops) mustChange(spec string) {
	s.t.Helper()
	if err := s.change(spec); err != nil {
		s.t.Fatal(err)
	}
}

// awaitStatus returns the platform once its status is about its newest spec and meets the
// condition.
func (s *shops) awaitStatus(what string, met func(platformv1.EcommercePlatformStatus) bool) *platformv1.EcommercePlatform {
	s.t.Helper()
	return s.awaitObject(what, func(shop *platformv1.EcommercePlatform) bool {
		return shop.Status.ObservedGeneration == shop.Generation && met(shop.Status)
	})
}

// await returns the platform once it is in a phase.
func (s *shops) await(phase string) *platformv1.EcommercePlatform {
	s.t.Helper()
	return s.awaitStatus("the EcommercePlatform is "+phase, func(status platformv1.EcommercePlatformStatus) bool { return status.Phase == phase })
}

// awaitReason returns the message of a condition once it has the reason.
func (s *shops) awaitReason(condition, reason string) string {
	s.t.Helper()
	shop := s.awaitStatus(condition+" has the reason "+reason, func(status platformv1.EcommercePlatformStatus) bool {
		found := meta.FindStatusCondition(status.Conditions, condition)
		return found != nil && found.Reason == reason
	})
	return meta.FindStatusCondition(shop.Status.Conditions, condition).Message
}

// run creates the platform and waits until it is Running.
func (s *shops) run(change ...func(*platformv1.EcommercePlatformSpec)) {
	s.t.Helper()
	s.create(change...)
	s.await(childv1alpha1.PhaseRunning)
}

// requests waits until the operator is done in the namespace, and returns its writes since then, by
// verb and resource. Writes for the PostgreSQL are left out, except the writes of the PostgreSQL
// itself.
func (s *shops) requests(since time.Time) map[string]int {
	s.t.Helper()
	return requestsOf(s.t, s.namespace, since, func(e cluster.AuditEvent) bool {
		ownPatch := e.Resource == "postgresqls" && e.Subresource == "" || e.Resource == "networkpolicies"
		return ownPatch || !strings.HasPrefix(e.Name, "shop-db")
	})
}

func (s *shops) assertContains(got string, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			s.t.Errorf("got %q, want it to contain %q", got, part)
		}
	}
}

// children returns the names of the children of a kind.
func (s *shops) children(resource schema.GroupVersionResource) []string {
	s.t.Helper()
	list, err := shared.Dynamic.Resource(resource).Namespace(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "platform=shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, object := range list.Items {
		names = append(names, object.GetName())
	}
	slices.Sort(names)
	return names
}

func (s *shops) assertChildren(resource schema.GroupVersionResource, want ...string) {
	s.t.Helper()
	if got := s.children(resource); !slices.Equal(got, want) {
		s.t.Errorf("%s are %q, want %q", resource.Resource, got, want)
	}
}

var (
	ingressResource = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	policyResource  = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	budgetResource  = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
)

// TestPlatformLife follows a platform from its creation in production to its deletion, and counts
// the requests.
func TestPlatformLife(t *testing.T) {
	t.Parallel()
	s := newShops(t)

	begin := time.Now()
	s.create(shopInProduction, shopHost("life.example.com"))
	shop := s.await(childv1alpha1.PhaseRunning)
	requests := s.requests(begin)
	t.Logf("requests of the creation: %v", requests)
	assertStatusWrites(t, requests, "ecommerceplatforms", 2, begin)
	delete(requests, "create events")
	// The second patch of the PostgreSQL is its finalizer. Its claims get the labels of the platform.
	want := map[string]int{
		"patch postgresqls": 2, "patch deployments": 3, "patch services": 3, "patch configmaps": 1, "patch ingresses": 1,
		"patch poddisruptionbudgets": 1, "patch networkpolicies": 4, "patch servicemonitors": 1,
		"patch persistentvolumeclaims": 3,
	}
	if !maps.Equal(requests, want) {
		t.Errorf("requests of the creation, without status and events, are %v, want %v", requests, want)
	}
	if got := shop.Status.Endpoints.Frontend; got != "http://life.example.com" || shop.Status.Host != "life.example.com" {
		t.Errorf("status is %+v", shop.Status)
	}

	s.mustChange(`{"environment":"development","database":{"storage":"100Gi"},"ingress":null,"cache":{"enabled":false}}`)
	s.await(childv1alpha1.PhaseRunning)
	s.assertChildren(policyResource)
	s.assertChildren(budgetResource)
	s.assertChildren(ingressResource)
	s.requests(begin) // The last event may be late.
	begin = time.Now()
	if got := s.requests(begin); len(got) > 0 {
		t.Errorf("requests at rest are %v", got)
	}

	s.remove()
	cluster.Eventually(t.Context(), t, "the children are gone", func(ctx context.Context) (bool, error) {
		_, err1 := s.client.DatabaseV1().PostgreSQLs(s.namespace).Get(ctx, "shop-db", metav1.GetOptions{})
		_, err2 := shared.Client.AppsV1().Deployments(s.namespace).Get(ctx, "shop-backend", metav1.GetOptions{})
		return apierrors.IsNotFound(err1) && apierrors.IsNotFound(err2), errors.Join(err1, err2)
	})
}

// TestPlatformStorageNeverShrinks: the condition names the fields that decide the size.
func TestPlatformStorageNeverShrinks(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	s.run(shopInProduction)

	s.mustChange(`{"environment":"staging"}`)
	s.await(childv1alpha1.PhaseFailed)

	s.assertContains(s.awaitReason(platformv1.ConditionDatabaseReady, "Unhealthy"), "spec.storage: 50Gi is less than the",
		"spec.environment staging requests 50Gi, and volumes never shrink: set spec.database.storage to their size or more")
	s.mustChange(`{"database":{"storage":"100Gi"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestPlatformServiceMonitors: a platform is monitored as soon as Prometheus Operator is installed.
// The test is not parallel, because it begins without the kind ServiceMonitor.
func TestPlatformServiceMonitors(t *testing.T) {
	s := newUnmonitoredShops(t)
	s.run()
	s.assertContains(s.awaitReason(platformv1.ConditionMonitoringReady, platformv1.ReasonNotServed), "does not serve ServiceMonitors")

	if err := installServiceMonitors(); err != nil {
		t.Fatal(err)
	}
	s.awaitReason(platformv1.ConditionMonitoringReady, "Healthy")
	s.assertChildren(serviceMonitors, "shop")

	s.requests(time.Now())
	_, err := shared.Dynamic.Resource(serviceMonitors).Namespace(s.namespace).Patch(t.Context(), "shop", types.MergePatchType,
		[]byte(`{"metadata":{"labels":null},"spec":{"endpoints":[]}}`), metav1.PatchOptions{FieldManager: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	s.requests(time.Now())
	s.assertChildren(serviceMonitors, "shop")

	s.mustChange(`{"monitoring":{"enabled":false}}`)
	s.await(childv1alpha1.PhaseRunning)
	s.assertChildren(serviceMonitors)
}

// TestPlatformWithMySQL: the server runs in a restricted namespace and has a Backup. The user
// brought its Secret, which the platform uses and completes once it has the label.
func TestPlatformWithMySQL(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	secrets := shared.Client.CoreV1().Secrets(s.namespace)
	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-db-credentials"},
		StringData: map[string]string{"username": "app", "password": "one", "database": "app"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	createKeys(t, s.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

	s.create(func(spec *platformv1.EcommercePlatformSpec) { spec.Database.Type = platformv1.DatabaseMySQL })
	s.assertContains(s.awaitReason("Ready", "OwnershipConflict"),
		`Secret "shop-db-credentials" exists and belongs to no owner: add the label platform=shop`)
	label := []byte(`{"metadata":{"labels":{"platform":"shop"}}}`)
	if _, err := secrets.Patch(t.Context(), secret.Name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	shop := s.await(childv1alpha1.PhaseRunning)

	if got := shop.Status.Endpoints.Database; got != "shop-db."+s.namespace+".svc.cluster.local:3306" {
		t.Errorf("endpoint of the database is %q", got)
	}
	live, err := secrets.Get(t.Context(), secret.Name, metav1.GetOptions{})
	if err != nil || len(live.Data["root-password"]) == 0 || len(live.OwnerReferences) > 0 {
		t.Errorf("the Secret is not completed, or has an owner: %v", err)
	}
	delete(live.Data, "root-password")
	if !maps.EqualFunc(live.Data, secret.Data, bytes.Equal) {
		t.Error("values of the user were changed")
	}

	s.mustChange(`{"database":{"backup":{"enabled":true,"destination":{"type":"s3","bucket":"dumps","credentialsSecret":"bucket"}}}}`)
	backups := s.client.BackupV1().Backups(s.namespace)
	cluster.Eventually(t.Context(), t, "the Backup exists", func(ctx context.Context) (bool, error) {
		_, err := backups.Get(ctx, "shop-db-backup", metav1.GetOptions{})
		return err == nil, err
	})
	s.await(childv1alpha1.PhaseRunning)
	s.mustChange(`{"database":{"backup":{"enabled":false}}}`)
	s.await(childv1alpha1.PhaseRunning)
	if _, err := backups.Get(t.Context(), "shop-db-backup", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Backup after backups are switched off: %v", err)
	}

	s.requests(time.Now())
	_, err = shared.Client.AppsV1().StatefulSets(s.namespace).Patch(t.Context(), "shop-db", types.MergePatchType,
		[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{FieldManager: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	s.requests(time.Now())
	s.await(childv1alpha1.PhaseRunning)

	s.mustChange(`{"environment":"production"}`)
	s.await(childv1alpha1.PhaseFailed)
	s.assertContains(s.awaitReason(platformv1.ConditionDatabaseReady, "Refused"), `spec.database: StatefulSet "shop-db" was refused`,
		"spec.environment production requests 100Gi, and the volume of a mysql keeps its size: set spec.database.storage to it")
	s.mustChange(`{"database":{"storage":"10Gi"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestPlatformGeneratesCredentials: the passwords of a mysql are generated once, and stay in their
// Secret.
func TestPlatformGeneratesCredentials(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	s.create(func(spec *platformv1.EcommercePlatformSpec) { spec.Database.Type = platformv1.DatabaseMySQL })
	shop := s.await(childv1alpha1.PhaseRunning)

	secret, err1 := shared.Client.CoreV1().Secrets(s.namespace).Get(t.Context(), "shop-db-credentials", metav1.GetOptions{})
	server, err2 := shared.Client.AppsV1().StatefulSets(s.namespace).Get(t.Context(), "shop-db", metav1.GetOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"password", "root-password"} {
		password := string(secret.Data[key])
		if text := fmt.Sprintf("%+v %+v", shop, server); len(password) < 26 || strings.Contains(text, password) {
			t.Errorf("%s is short, or in the platform or the StatefulSet", key)
		}
	}

	err := s.change(`{"database":{"type":"postgresql"}}`)

	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.database.type") || !strings.Contains(err.Error(), "create another EcommercePlatform") {
		t.Errorf("error of another type is %v", err)
	}
}
