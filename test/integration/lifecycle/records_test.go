// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// mostGrowth bounds, in bytes, how much memory release records may cost that are too large to read.
// It does not hold for the race detector, which needs many times the memory.
const mostGrowth = 100 << 20

// Sizes of the decompressed content of release records, in bytes.
const (
	zeros       = 100 << 20
	jsonNumbers = 15 << 20
	withinLimit = 3 << 20  // The operator reads records of up to 4 MiB.
	chartFile   = 11 << 20 // 15 MiB in base64.
	yamlNumbers = 1300 << 10
	yamlDepth   = 1 << 20
)

// manyRecords is the number of records with a large chart.
const manyRecords = 20

// badRecords are release records that a tenant forges: edited ones, and newer ones.
var badRecords = []struct {
	name string
	make func(t *testing.T, tenant *apps.Tenant)
}{
	{"gzip bomb", func(t *testing.T, tenant *apps.Tenant) {
		t.Helper()
		addText(t, tenant, make([]byte, zeros))
	}},
	{"JSON of many numbers", func(t *testing.T, tenant *apps.Tenant) {
		t.Helper()
		numbers := strings.Repeat("0,", jsonNumbers/2)
		addText(t, tenant, fmt.Appendf(nil, `{"name": "web", "version": 2, "info": {"status": "deployed"}, "config": {"a": [%s0]}}`, numbers))
	}},
	{"JSON of many numbers within the limit", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) {
			content["config"] = map[string]any{"a": make([]int8, withinLimit/2)}
		})
	}},
	{"manifest with aliases", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) {
			numbers := strings.Repeat("0,", yamlNumbers/2)
			content["manifest"] = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: intruder}\nx: &x [" + numbers + "0]\ny: *x\n"
		})
	}},
	{"manifest with aliases of aliases", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) {
			manifest := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: intruder}\na0: &a0 [0,0,0,0,0,0,0,0,0,0]\n"
			for i := 1; i < 9; i++ {
				aliases := strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9) + fmt.Sprintf("*a%d", i-1)
				manifest += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, aliases)
			}
			content["manifest"] = manifest
		})
	}},
	{"deep manifest", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) {
			content["manifest"] = "---\nx: " + strings.Repeat("[", yamlDepth)
		})
	}},
	{"deep JSON", func(t *testing.T, tenant *apps.Tenant) {
		t.Helper()
		addText(t, tenant, []byte(`{"config": {"a": `+strings.Repeat("[", yamlDepth)))
	}},
	{"no info", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.EditRecord("web", 1, func(content map[string]any) { delete(content, "info") })
	}},
	{"newer record without info", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) { delete(content, "info") })
	}},
	{"no chart", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) { delete(content, "chart") })
	}},
	{"chart without metadata", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) { content["chart"] = map[string]any{} })
	}},
	{"chart with a long version", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) {
			metadata := content["chart"].(map[string]any)["metadata"].(map[string]any)
			metadata["name"], metadata["version"], metadata["appVersion"] = strings.Repeat("x", 10_000), strings.Repeat("1", 10_000), ""
		})
	}},
	{"null", func(t *testing.T, tenant *apps.Tenant) {
		t.Helper()
		addText(t, tenant, []byte("null"))
	}},
	{"null hook", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.AddRecord("web", 1, 2, func(content map[string]any) { content["hooks"] = []any{nil} })
	}},
	{"not decodable", func(_ *testing.T, tenant *apps.Tenant) {
		tenant.UpdateRecord("web", 1, func(secret *corev1.Secret) { secret.Data["release"] = []byte("AAAA") })
	}},
	{"newer record not decodable", func(_ *testing.T, tenant *apps.Tenant) {
		secret := tenant.CopyRecord("web", 1, 2)
		secret.Data["release"] = []byte("AAAA")
		tenant.CreateRecord(secret)
	}},
	{"many large charts", func(t *testing.T, tenant *apps.Tenant) {
		t.Helper()
		var secrets []*corev1.Secret
		for revision := 2; revision < 2+manyRecords; revision++ {
			// The charts differ, so that the operator cannot hold two of them as one. The file is
			// zeros but for its start.
			start := base64.StdEncoding.EncodeToString([]byte{byte(revision), 0, 0})
			file := start + strings.Repeat("A", chartFile/3*4-len(start))
			secret := tenant.CopyRecord("web", 1, revision)
			content := apps.DecodeRecord(t, secret)
			content["version"] = revision
			chart := content["chart"].(map[string]any)
			chart["files"] = []any{map[string]any{"name": "large", "data": file}}
			secret.Data["release"] = apps.EncodeRecord(t, content)
			secrets = append(secrets, secret)
		}
		// The newest is created first. Otherwise the operator would create the next revision
		// itself.
		for _, secret := range slices.Backward(secrets) {
			tenant.CreateRecord(secret)
		}
	}},
}

// addText creates a newer record with this content and the engine's labels.
func addText(t *testing.T, tenant *apps.Tenant, text []byte) {
	t.Helper()
	secret := tenant.CopyRecord("web", 1, 2)
	secret.Data["release"] = apps.CompressRecord(t, text)
	tenant.CreateRecord(secret)
}

// TestUnreadableRecord forges one record after another. The operator neither ends nor grows, and
// still installs other DemoApps. The DemoApp itself recovers and can be deleted. The DemoApps and
// their records are handled one after another, so that growing memory can be attributed.
func TestUnreadableRecord(t *testing.T) {
	namespaces := map[string]*apps.Namespace{}
	for _, bad := range badRecords {
		namespaces[bad.name] = apps.NewExclusive(t, shared)
	}
	operator := cluster.StartOperator(t.Context(), t, shared)
	installAll(slices.Collect(maps.Values(namespaces)))
	for _, bad := range badRecords {
		t.Run(bad.name, func(t *testing.T) {
			ns := apps.In(t, shared, namespaces[bad.name].Name)
			tenant := ns.AddTenant("demoapps")
			before, err := operator.ResetPeakMemory()
			if err != nil {
				t.Fatal(err)
			}
			defer assertGrowth(t, operator, before)

			bad.make(t, tenant)
			ns.Create(apps.WithoutPods("neighbor"))
			ns.AwaitReady("neighbor")
			tenant.DeleteService("web")
			ns.AwaitFromChart("web")
			ns.Delete("web")
			ns.AwaitGone("web")

			if len(ns.Objects("web").All()) > 0 || len(ns.Records("web")) > 0 {
				t.Errorf("left: %v, %v", ns.Objects("web").All(), ns.Records("web"))
			}
		})
	}
}

// TestUnreadableRecordAtStart forges all records while no operator runs. The records decompress to
// hundreds of megabytes, and the race detector slows their construction.
func TestUnreadableRecordAtStart(t *testing.T) {
	namespaces := make([]*apps.Namespace, len(badRecords))
	for i := range badRecords {
		namespaces[i] = apps.NewExclusive(t, shared)
	}
	operator := cluster.StartOperator(t.Context(), t, shared)
	tenants := make([]*apps.Tenant, len(badRecords))
	for i, ns := range namespaces {
		tenants[i] = ns.AddTenant("demoapps")
	}
	installAll(namespaces)
	apps.AwaitNoWork(t, shared)
	operator.Stop()
	restarted := cluster.StartOperator(t.Context(), t, shared)
	cluster.AwaitLead(t, restarted)
	apps.AwaitNoWork(t, shared)
	before, err := restarted.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	restarted.Stop()

	for i, bad := range badRecords {
		bad.make(t, tenants[i])
	}
	operator = cluster.StartOperator(t.Context(), t, shared)
	defer assertGrowth(t, operator, before)
	for i, ns := range namespaces {
		tenants[i].DeleteService("web")
		ns.AwaitFromChart("web")
	}
	for _, ns := range namespaces {
		ns.Delete("web")
	}
	for _, ns := range namespaces {
		ns.AwaitGone("web")
	}
}

// installAll installs the DemoApp "web" in each namespace.
func installAll(namespaces []*apps.Namespace) {
	for _, ns := range namespaces {
		ns.Create(apps.WithoutPods("web"))
	}
	for _, ns := range namespaces {
		ns.AwaitReady("web")
	}
}

func assertGrowth(t *testing.T, operator *cluster.Operator, before int64) {
	t.Helper()
	select {
	case <-operator.Exited():
		t.Fatal("the operator ended")
	default:
	}
	after, err := operator.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB before, at most %d MiB since", before>>20, after>>20)
	if after-before > mostGrowth && !cluster.RaceEnabled {
		t.Errorf("the operator grew by %d MiB, at most %d MiB are allowed", (after-before)>>20, mostGrowth>>20)
	}
}
