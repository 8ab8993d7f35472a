// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestSecureMetrics holds that the operator under its own ServiceAccount can review tokens, and
// whom it lets read metrics.
func TestSecureMetrics(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	for _, name := range []string{"reader", "guest"} {
		_, err := shared.Client.CoreV1().ServiceAccounts(ns.Name).Create(
			t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	address := cluster.FreeAddress(t.Context(), t)
	operator := cluster.StartOperator(t.Context(), t, shared, "--metrics-secure", "--metrics-bind-address="+address, "--controllers=demoapp")
	url := "https://" + address + "/metrics"

	// Without the rights of artifacts/rbac/metrics-auth.yaml, the operator cannot review a token.
	if status, _ := scrape(t, url, token(t, ns.Name, "reader")); status != http.StatusServiceUnavailable {
		t.Errorf("status without the right to review tokens: %d", status)
	}

	if err := shared.ApplyFiles(t.Context(), "", "artifacts/rbac/metrics-auth.yaml"); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader-" + ns.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "demoapp-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns.Name, Name: "reader"}},
	}
	if _, err := shared.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, none := context.WithoutCancel(t.Context()), metav1.DeleteOptions{}
		_ = shared.Client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, none)
		_ = shared.Client.RbacV1().ClusterRoleBindings().Delete(ctx, "demoapp-controller-metrics-auth", none)
	})

	reader := token(t, ns.Name, "reader")
	cluster.Eventually(t.Context(), t, "metrics for the reader", func(context.Context) (bool, error) {
		status, body := scrape(t, url, reader)
		if status != http.StatusOK {
			return false, fmt.Errorf("status %d: %s", status, body)
		}
		return strings.Contains(body, "leader_election_master_status"), nil
	})
	for name, test := range map[string]struct {
		token  string
		status int
	}{
		"no token":                {"", http.StatusUnauthorized},
		"an invalid token":        {"garbage", http.StatusUnauthorized},
		"a user without the role": {token(t, ns.Name, "guest"), http.StatusForbidden},
	} {
		if status, body := scrape(t, url, test.token); status != test.status || strings.Contains(body, "leader_election") {
			t.Errorf("%s: status %d, want %d", name, status, test.status)
		}
	}
	assertReviews(t, operator)
	if strings.Contains(operator.Log(), reader) {
		t.Error("the log has a token")
	}
}

// assertReviews asserts that the operator needed all permissions of
// artifacts/rbac/metrics-auth.yaml, which has two ClusterRoles: the ClusterRole of the operator,
// and the ClusterRole of the reader, which has no resources.
func assertReviews(t *testing.T, operator *cluster.Operator) {
	t.Helper()
	granted, err := shared.ReadPermissions("artifacts/rbac/metrics-auth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := shared.AuditRequests(time.Time{}, cluster.ByProcess(operator))
	if err != nil {
		t.Fatal(err)
	}
	for _, permission := range granted {
		allowed := func(r cluster.AuditEvent) bool { return permission.IsUsedBy(r) && r.Code == http.StatusCreated }
		if !slices.ContainsFunc(requests, allowed) {
			t.Errorf("artifacts/rbac/metrics-auth.yaml grants a permission that the operator did not need: %s", permission)
		}
	}
}

// token returns a new token of a ServiceAccount.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	config, err := shared.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

// scrape returns the status and body of an answer.
func scrape(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
