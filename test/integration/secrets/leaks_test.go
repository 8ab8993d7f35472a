// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/controller/controllertest/passlog"
	"github.com/example/demoapp-controller/test/canary"
	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// quiet is how long the operator is silent between retries.
	quiet = 2 * time.Second
	// outcomeTimeout bounds the wait for the outcomes of all objects.
	outcomeTimeout = 2 * time.Minute
	// auditNamespace is the default of --audit-namespace.
	auditNamespace = "demoapp-audit"
)

// scenario is a file in testdata whose objects are created in a namespace of their own.
type scenario struct {
	file string
	// outcomes are the reasons of the condition Ready, by kind and name; True for a ready object.
	outcomes map[string]string
	// late says that the objects are created last, when all other objects have their outcomes.
	late bool
	// deleted says that the objects are deleted while the operator runs without verbosity.
	deleted bool

	namespace string
}

func scenarios() []*scenario {
	return []*scenario{
		{file: "demoapp.yaml", deleted: true, outcomes: map[string]string{
			"DemoApp/plain": "True", "DemoApp/from-secret": "True", "DemoApp/denied-app": "Refused",
			"DemoApp/bad-text": "ValuesInvalid", "DemoApp/bad-table": "RenderFailed", "DemoApp/bad-name": "Refused", "DemoApp/bad-enum": "Refused",
			"DemoApp/refused": "LicenseDenied",
		}},
		{file: "demoappcluster.yaml", outcomes: map[string]string{"DemoAppCluster/page": "True", "DemoAppCluster/denied-cluster": "Refused"}},
		{file: "postgresql.yaml", outcomes: map[string]string{
			"PostgreSQL/own": "True", "PostgreSQL/invalid": "CredentialsInvalid", "PostgreSQL/amended": "Refused",
			"PostgreSQL/generated": "True", "PostgreSQL/denied-db": "Refused", "Backup/generated-backup": "True",
		}},
		{file: "backup.yaml", outcomes: map[string]string{
			"Backup/to-bucket": "True", "Backup/to-incomplete": "KeyNotFound", "Backup/denied-backup": "Refused",
		}},
		{file: "appstack.yaml", outcomes: map[string]string{"AppStack/stack": "True", "AppStack/denied-stack": "Unhealthy"}},
		{file: "ecommerceplatform.yaml", outcomes: map[string]string{
			"EcommercePlatform/postgresql": "True", "EcommercePlatform/mysql": "True",
			"EcommercePlatform/generated-postgresql": "Progressing", "EcommercePlatform/generated-mysql": "Progressing",
			"EcommercePlatform/denied-shop": "Unhealthy",
		}},
		{file: "plain.yaml", deleted: true, outcomes: map[string]string{
			"WebApp/web": "True", "WebApp/denied-web": "Refused", "Website/web-site": "True", "Website/denied-web-site": "Refused",
			"MemcachedBackup/web-nodes": "True", "MemcachedBackup/denied-web-nodes": "Refused", "AppConfig/web-config": "True",
			"AppConfig/denied-web-config": "Refused", "AppConfig/unanswered-web-config": "RenderFailed",
		}},
		{file: "watches.yaml", deleted: true, outcomes: map[string]string{
			"Memcached/cache": "True", "Memcached/bad": "RenderFailed", "SchemaFailure/schemafailure": "RenderFailed",
			"MergeFailure/mergefailure": "RenderFailed", "ApplyFailure/applyfailure": "Refused",
		}},
		{file: "unanswered.yaml", late: true, deleted: true, outcomes: map[string]string{"DemoApp/unanswered": "LicenseUnavailable"}},
	}
}

// policyOf is the data of a policy in policies.yaml.
type policyOf struct {
	Name      string
	Resources []string
	Operation string
	// Prefix begins the names of the refused objects.
	Prefix string
	// Message is a CEL expression.
	Message string
}

var policies = []policyOf{
	{"app-secrets", []string{"secrets"}, "CREATE", "denied-app", `'refused ' + object.data.apiKey`},
	{"passwords", []string{"secrets"}, "UPDATE", "amended-", `'refused ' + object.data.password`},
	{"apps", []string{"demoapps"}, "CREATE", "denied-cluster-", `'refused ' + object.spec.apiKey`},
	{
		"others",
		[]string{"configmaps", "services", "deployments", "statefulsets", "cronjobs"},
		"CREATE", "denied-", `'refused ' + object.metadata.name`,
	},
}

// TestAllKindsHaveSecrets requires an object of each kind in the scenarios.
func TestAllKindsHaveSecrets(t *testing.T) {
	var files []string
	for _, pattern := range []string{"artifacts/crds/*.yaml", "artifacts/kinds/*/crd.yaml"} {
		matches, err := filepath.Glob(filepath.Join(shared.Root(), pattern))
		if err != nil || len(matches) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(matches), err)
		}
		files = append(files, matches...)
	}
	defined := sets.New[string]()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		defined.Insert(crd.Spec.Names.Kind)
	}

	handled := sets.New[string]()
	for _, s := range scenarios() {
		for object := range s.outcomes {
			kind, _, _ := strings.Cut(object, "/")
			handled.Insert(kind)
		}
	}

	if missing := sets.List(defined.Difference(handled)); len(missing) > 0 {
		t.Errorf("no scenario has an object of the kinds %q", missing)
	}
}

// TestSecretsStayInSecrets lets the operator handle objects of all kinds with secrets, well and
// badly, at the highest verbosity in JSON and at the lowest one in text. None of the secrets is in
// the operator's output and writes, except in Secrets.
//
// It takes about 40 seconds, because it starts two operators and waits for the retries of both.
func TestSecretsStayInSecrets(t *testing.T) {
	all := scenarios()
	namespaces := []string{auditNamespace, metav1.NamespaceDefault, cluster.OperatorNamespace}
	for _, s := range all {
		s.namespace = newNamespace(t)
		namespaces = append(namespaces, s.namespace)
	}
	verbose := cluster.StartOperator(t.Context(), t, shared, append([]string{"-v=7", "--logging-format=json"}, operatorArgs...)...)
	applyPolicies(t, all[0].namespace)
	begin := time.Now()

	for _, late := range []bool{false, true} {
		now := slices.DeleteFunc(slices.Clone(all), func(s *scenario) bool { return s.late != late })
		for _, s := range now {
			if err := shared.ApplyFiles(t.Context(), s.namespace, s.render(t)); err != nil {
				t.Fatalf("%s: %v", s.file, err)
			}
		}
		awaitOutcomes(t, now)
	}
	awaitQuiet(t, namespaces)
	texts := written(t, "while they exist", namespaces)
	texts["metrics with -v=7"] = metricsOf(t, verbose)
	verbose.Stop()
	texts["log with -v=7"] = verbose.Log()
	trackPasswords(t, namespaces)

	silent := cluster.StartOperator(t.Context(), t, shared, append([]string{"-v=0"}, operatorArgs...)...)
	awaitQuiet(t, namespaces)
	for _, s := range all {
		if s.deleted {
			s.delete(t)
		}
	}
	awaitQuiet(t, namespaces)
	maps.Copy(texts, written(t, "after the deletion", namespaces))
	texts["metrics with -v=0"] = metricsOf(t, silent)
	silent.Stop()
	texts["log with -v=0"] = silent.Log()

	assertSecretsAreKnown(t, namespaces)
	for _, place := range slices.Sorted(maps.Keys(texts)) {
		for _, leak := range canaries.Find(texts[place]) {
			t.Errorf("%s: %s", place, leak)
		}
	}
	assertFields(t, verbose.Log())
	if records, err := shared.Client.CoreV1().ConfigMaps(auditNamespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(records.Items) < 7 {
		t.Errorf("there are too few audit records: %v", err)
	}
	t.Logf("searched %d texts, and %d bytes of logs, after %v", len(texts), len(verbose.Log())+len(silent.Log()), time.Since(begin))
}

// TestCredentialsOfRegistriesStaySecret pulls a chart from a registry that refuses the credentials,
// and repeats them.
func TestCredentialsOfRegistriesStaySecret(t *testing.T) {
	password := canaries.New("the password of a registry")
	registry := startRegistry(t)
	dir := t.TempDir()
	config, watches := filepath.Join(dir, "config.json"), filepath.Join(dir, "watches.yaml")
	err := errors.Join(
		os.WriteFile(config, fmt.Appendf(nil, `{"auths": {%q: {"username": "me", "password": %q}}}`, registry, password), 0o600),
		os.WriteFile(watches, fmt.Appendf(nil, "- {group: canary.example.com, version: v1, kind: SchemaFailure, chart: \"oci://%s/chart:1.0.0\"}\n", registry), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}

	operator := cluster.LaunchOperator(t.Context(), t, shared, "-v=7", "--watches-file="+watches, "--chart-cache-dir="+dir, "--registry-config="+config)
	select {
	case <-operator.Exited():
	case <-t.Context().Done():
	}

	if log := operator.Log(); !strings.Contains(log, registry) || !strings.Contains(log, "401") {
		t.Errorf("the log does not say that the registry refuses: %s", log)
	}
	for _, leak := range canaries.Find(operator.Log()) {
		t.Error(leak)
	}
}

// newNamespace creates a namespace in which the policies hold.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := shared.Namespace(t)
	_, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"canary": "policies"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// volume is a volume for a claim of a database, because the cluster has no provisioner.
const volume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-%[2]s}
spec:
  capacity: {storage: 100Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {kind: PersistentVolumeClaim, namespace: %[1]s, name: %[2]s}
  hostPath: {path: /simulated}`

// render executes the file as a template, and returns the path of the result.
func (s *scenario) render(t *testing.T) string {
	t.Helper()
	file := s.file
	asJSON := func(v any) (string, error) {
		content, err := json.Marshal(v)
		return string(content), err
	}
	parsed, err := template.New(file).Funcs(template.FuncMap{
		"json": asJSON, "lower": strings.ToLower,
		"list":     func(items ...string) []string { return items },
		"policies": func() []policyOf { return policies },
		"volume":   func(claim string) string { return fmt.Sprintf(volume, s.namespace, claim) },
		"canary":   func(name string) (string, error) { return asJSON(canaries.NewSpecial(file + ": " + name)) },
		"node": func() (string, error) {
			nodes, err := shared.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
			return nodes.Items[0].Labels[corev1.LabelHostname], err
		},
	}).ParseFiles(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// applyPolicies applies the policies, and waits until they hold.
func applyPolicies(t *testing.T, namespace string) {
	t.Helper()
	if err := shared.ApplyFiles(t.Context(), "", (&scenario{file: "policies.yaml"}).render(t)); err != nil {
		t.Fatal(err)
	}
	secrets := shared.Client.CoreV1().Secrets(namespace)
	dryRun := []string{metav1.DryRunAll}
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "amended-probe"}, StringData: map[string]string{"password": "x"}}
	if _, err := secrets.Create(t.Context(), probe, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	attempts := map[string]func(context.Context) error{
		"app-secrets": func(ctx context.Context) error {
			probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "denied-app-probe"}, StringData: map[string]string{"apiKey": "x"}}
			_, err := secrets.Create(ctx, probe, metav1.CreateOptions{DryRun: dryRun})
			return err
		},
		"passwords": func(ctx context.Context) error {
			_, err := secrets.Patch(ctx, probe.Name, types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		},
		"apps": func(ctx context.Context) error {
			apps := schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
			_, err := shared.Dynamic.Resource(apps).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "demo.example.com/v1alpha1", "kind": "DemoApp", "metadata": map[string]any{"name": "denied-cluster-probe"},
				"spec": map[string]any{"apiKey": "the key of a probe"},
			}}, metav1.CreateOptions{DryRun: dryRun})
			return err
		},
		"others": func(ctx context.Context) error {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "denied-probe"}}
			_, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: dryRun})
			return err
		},
	}
	for name, attempt := range attempts {
		cluster.Eventually(t.Context(), t, "policy "+name+" holds", func(ctx context.Context) (bool, error) {
			err := attempt(ctx)
			return err != nil && strings.Contains(err.Error(), "refused "), err
		})
	}
}

// awaitOutcomes waits until all objects have their outcomes. The search for leaks also follows a
// failed wait.
func awaitOutcomes(t *testing.T, all []*scenario) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), outcomeTimeout)
	defer cancel()
	for {
		var missing []string
		for _, s := range all {
			missing = append(missing, s.missing(ctx, t)...)
		}
		if len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("outcomes differ:\n%s", strings.Join(missing, "\n"))
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// missing returns the objects that do not have their outcome.
func (s *scenario) missing(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var missing []string
	for _, object := range slices.Sorted(maps.Keys(s.outcomes)) {
		kind, name, _ := strings.Cut(object, "/")
		live, err := shared.Dynamic.Resource(resourceOf(t, kind)).Namespace(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", object, err))
			continue
		}
		if status, reason := readiness(live); s.outcomes[object] != status && s.outcomes[object] != reason {
			missing = append(missing, fmt.Sprintf("%s: Ready is %s %s, want %s", object, status, reason, s.outcomes[object]))
		}
	}
	return missing
}

// delete deletes the objects, and waits until only those are left whose deletion cannot end.
func (s *scenario) delete(t *testing.T) {
	t.Helper()
	for object := range s.outcomes {
		kind, _, _ := strings.Cut(object, "/")
		client := shared.Dynamic.Resource(resourceOf(t, kind)).Namespace(s.namespace)
		if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t.Context(), t, kind+" gone", func(ctx context.Context) (bool, error) {
			left, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			left.Items = slices.DeleteFunc(left.Items, func(object unstructured.Unstructured) bool {
				return kind == "WebApp" && object.GetName() == unanswered+"-web"
			})
			return len(left.Items) == 0, nil
		})
	}
}

// resourceOf returns the resource of a kind of ours.
func resourceOf(t *testing.T, kind string) schema.GroupVersionResource {
	t.Helper()
	groups := map[string]string{
		"DemoApp": "demo.example.com/v1alpha1", "DemoAppCluster": "demo.example.com/v1alpha1", "WebApp": "example.com/v1",
		"Website": "webapp.example.com/v1", "PostgreSQL": "database.example.com/v1", "Backup": "backup.example.com/v1",
		"AppConfig": "config.example.com/v1", "AppStack": "app.example.com/v1", "EcommercePlatform": "platform.example.com/v1",
		"MemcachedBackup": "cache.my.domain/v1", "Memcached": "cache.my.domain/v1",
	}
	version, err := schema.ParseGroupVersion(groups[kind])
	if groups[kind] == "" {
		version, err = schema.ParseGroupVersion("canary.example.com/v1")
	}
	if err != nil {
		t.Fatal(err)
	}
	return version.WithResource(strings.ToLower(kind) + "s")
}

// readiness returns the status and the reason of the condition Ready.
func readiness(object *unstructured.Unstructured) (status, reason string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, ok := item.(map[string]any); ok && condition["type"] == "Ready" {
			return fmt.Sprint(condition["status"]), fmt.Sprint(condition["reason"])
		}
	}
	return "", ""
}

// awaitQuiet waits for the end of the operator's requests in these namespaces, but for the renewals
// of the lease. Objects that other tests left may be retried.
func awaitQuiet(t *testing.T, namespaces []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), outcomeTimeout)
	defer cancel()
	ours := cluster.ByOperator()
	if err := shared.AwaitAuditQuiet(ctx, quiet, func(event cluster.AuditEvent) bool {
		return slices.Contains(namespaces, event.Namespace) && event.Resource != "leases" && ours(event)
	}); err != nil {
		t.Fatal(err)
	}
}

func metricsOf(t *testing.T, operator *cluster.Operator) string {
	t.Helper()
	metrics, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// written returns all objects of the namespaces as JSON, by kind and name. Left out are the data of
// Secrets, and the spec of DemoApps and DemoAppClusters, into which users write keys.
func written(t *testing.T, when string, namespaces []string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, object := range objectsOf(t, namespaces) {
		switch object.GetKind() {
		case "Secret":
			delete(object.Object, "data")
		case "DemoApp", "DemoAppCluster":
			delete(object.Object, "spec")
		}
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		texts[fmt.Sprintf("%s %s/%s %s", object.GetKind(), object.GetNamespace(), object.GetName(), when)] = string(content)
	}
	return texts
}

// objectsOf returns all objects of the namespaces.
func objectsOf(t *testing.T, namespaces []string) []unstructured.Unstructured {
	t.Helper()
	lists, err := shared.Client.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		t.Fatal(err)
	}
	var found []unstructured.Unstructured
	for resource := range resources {
		list, err := shared.Dynamic.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("list %s: %v", resource, err)
		}
		for _, object := range list.Items {
			if slices.Contains(namespaces, object.GetNamespace()) {
				found = append(found, object)
			}
		}
	}
	if meta.LenList(&unstructured.UnstructuredList{Items: found}) == 0 {
		t.Fatal("there are no objects")
	}
	return found
}

// trackPasswords adds the generated passwords to the canaries.
func trackPasswords(t *testing.T, namespaces []string) {
	t.Helper()
	tracked := 0
	for _, namespace := range namespaces {
		secrets, err := shared.Client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets.Items {
			for key, value := range secret.Data {
				if strings.Contains(key, "password") && len(value) >= 12 && len((&canaries).Find(string(value))) == 0 {
					canaries.Track(fmt.Sprintf("the generated %s of %s", key, secret.Name), string(value))
					tracked++
				}
			}
		}
	}
	if tracked < 4 {
		t.Errorf("there are %d generated passwords", tracked)
	}
}

// assertSecretsAreKnown finds each canary where it belongs, which shows that the search finds them:
// in Secrets, in specs, in the flags or in the environment.
func assertSecretsAreKnown(t *testing.T, namespaces []string) {
	t.Helper()
	var text strings.Builder
	for _, object := range objectsOf(t, namespaces) {
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	found := canaries.Find(text.String())
	for _, name := range []string{
		"demoapp.yaml: a value of valuesFrom", "demoappcluster.yaml: spec.template.spec.apiKey", "postgresql.yaml: a password",
		"backup.yaml: a bucket's key", "appstack.yaml: the password of a stack's database", "ecommerceplatform.yaml: a bucket's key",
	} {
		if !slices.ContainsFunc(found, func(leak canary.Leak) bool { return leak.Canary == name }) {
			t.Errorf("the search does not find %s where it belongs", name)
		}
	}
}

// assertFields checks the lines of the log, and that all controllers have written some.
func assertFields(t *testing.T, log string) {
	t.Helper()
	problems, passes := passlog.Problems(log)
	for _, problem := range problems[:min(len(problems), 20)] {
		t.Errorf("log: %s", problem)
	}
	if passes < 500 {
		t.Errorf("%d lines of passes", passes)
	}
	for _, part := range []string{`"controller":"demoapp"`, `"controller":"website"`, `"msg":"creating release".*"reconcileID"`, `"msg":"Response".*"reconcileID"`} {
		if !regexp.MustCompile(part).MatchString(log) {
			t.Errorf("no line of the log has %s", part)
		}
	}
}
