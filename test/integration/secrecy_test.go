// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestKeysStaySecret uses a key in the spec and one in a Secret, and causes failures of many kinds.
// It then searches all that the operator wrote for the keys.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// Quotes and markup change the text of a key that is escaped.
	plain, fromSecretKey := `plain"<key>\of `+ns.Name, `secret"<key>\of `+ns.Name
	createSecret(t, ns, map[string]string{"theKey": fromSecretKey})
	repeatKeys(t, ns)

	names := []string{"plain", "from-secret", "refused-plain", "refused-from-secret"}
	for _, name := range names {
		app := fromSecret(name)
		if strings.HasSuffix(name, "plain") {
			app = apps.Named(name)
			app.Spec.APIKey = plain
		}
		ns.Create(app)
	}
	for _, name := range names[:2] {
		ns.AwaitReady(name)
		secrets := shared.Dynamic.Resource(ownedKinds[3].resource).Namespace(ns.Name)
		want := get(t, secrets, name)
		patch(t, secrets, name, ownedKinds[3].change)
		awaitSame(t, secrets, want, time.Now())
	}
	for _, name := range names[2:] {
		app := ns.Await(name, "refused", isRefused)
		// A message of another component has the key in it.
		if got := apps.Condition(app, releasev1alpha1.ConditionFailed).Message; !strings.Contains(got, "the key REDACTED") {
			t.Errorf("%s: the message should have the key redacted: %s", name, got)
		}
	}
	for _, name := range names {
		ns.Delete(name)
	}
	for _, name := range names {
		ns.AwaitGone(name)
	}
	ns.AwaitQuiet(quiet)

	for place, text := range writings(t, ns, names) {
		for _, key := range []string{plain, fromSecretKey} {
			if form := formIn(text, key); form != "" {
				t.Errorf("%s: the key %s is in it", place, form)
			}
		}
	}
}

// repeatKeys refuses the Secrets of some releases. The message has the key as it is in the Secret.
func repeatKeys(t *testing.T, ns *apps.Namespace) {
	t.Helper()
	policy{
		name: "keys-" + ns.Name, namespace: ns.Name, version: "v1", resource: "secrets",
		expression: `!object.metadata.name.startsWith("refused-")`,
		message:    `"the key " + object.data.apiKey + " is refused"`,
	}.apply(t, func(ctx context.Context) error {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "refused-probe"}, StringData: map[string]string{"apiKey": "probe"}}
		_, err := shared.Client.CoreV1().Secrets(ns.Name).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !strings.Contains(err.Error(), "the key cHJvYmU= is refused") {
			t.Fatalf("the policy does not repeat the key: %v", err)
		}
		return err
	})
}

// writings has all texts that the operator wrote, by place.
func writings(t *testing.T, ns *apps.Namespace, names []string) map[string]string {
	t.Helper()
	found := map[string]string{"log": operator.Log()}
	metrics, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found["metrics"] = metrics
	events, err := shared.Client.EventsV1().Events(ns.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found["events"] = asJSON(t, events)
	for _, name := range names {
		for i, version := range ns.Versions(name) {
			app := version.App.DeepCopy()
			// A user wrote the key into the spec.
			app.Spec.APIKey = ""
			found[fmt.Sprintf("DemoApp %s, version %d", name, i)] = asJSON(t, app)
		}
		for _, record := range ns.AuditRecords(name) {
			found["audit record "+record.Name] = asJSON(t, record)
		}
	}
	return found
}

func asJSON(t *testing.T, object any) string {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// formIn returns the form of the key that a text has, or "".
func formIn(text, key string) string {
	escaped, err := json.Marshal(key)
	if err != nil {
		return err.Error()
	}
	for form, value := range map[string]string{
		"in plain text": key,
		"quoted":        strings.Trim(strconv.Quote(key), `"`),
		"in JSON":       strings.Trim(string(escaped), `"`),
		"in base64":     base64.StdEncoding.EncodeToString([]byte(key)),
	} {
		if strings.Contains(text, value) {
			return form
		}
	}
	return ""
}
