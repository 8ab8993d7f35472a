// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upgrade

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	// newestSize is the number of DemoApps for the upgrade from the newest milestone, unless the
	// tests are short.
	newestSize = 200
	// olderSize is the number for each other milestone, unless sizeVariable has another.
	olderSize = 24
	// sizeVariable is the environment variable with the number of DemoApps for each milestone but
	// the newest. "make test-upgrade" sets it to 200.
	sizeVariable = "UPGRADE_DEMOAPPS"
)

const (
	// mostPerObject bounds the requests for each DemoApp when a new version starts and the chart
	// has not changed.
	mostPerObject = 2
	// mostPerUpgrade is the same if the chart has changed, so that each release gets a revision.
	mostPerUpgrade = 15
	// mostToStart bounds the requests of a start, except requests for objects.
	mostToStart = 150
)

// maxRollouts is the number of DemoApps that may get a newer chart at the same time.
const maxRollouts = 4

// quiet is the time without requests after which an operator has no work left.
const quiet = 4 * time.Second

// shared is the control plane of all tests of this package.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
}

// TestUpgrade upgrades the operator from each milestone to this version, or only from the newest if
// the tests are short.
func TestUpgrade(t *testing.T) {
	requireHistory(t)
	all := readMilestones(t)
	if testing.Short() {
		all = all[len(all)-1:]
	}
	trees := checkouts(t, all)
	for i, m := range all {
		newest := i == len(all)-1
		begin := time.Now()
		from := <-trees
		if from.err != nil {
			t.Fatal(from.err)
		}
		t.Logf("waited %.1f s for the build of %s", time.Since(begin).Seconds(), m.name)
		t.Run(m.name, func(t *testing.T) { upgradeFrom(t, from.tree, size(t, newest), newest) })
	}
}

// size returns the number of DemoApps.
func size(t *testing.T, newest bool) int {
	t.Helper()
	text := os.Getenv(sizeVariable)
	switch {
	case newest && !testing.Short():
		return newestSize
	case text == "":
		return olderSize
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s=%s: must be a number of DemoApps", sizeVariable, text)
	}
	return number
}

// upgradeFrom installs DemoApps with the operator of an older version, and replaces that by this
// one.
func upgradeFrom(t *testing.T, tree *tree, size int, downgrade bool) {
	old := cluster.Launch{Binary: tree.path("demoapp-controller"), Dir: tree.dir, Args: tree.args}

	begin := time.Now()
	fleet := newFleet(t, tree)
	deploy(t, tree)
	operator := old.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	fleet.create(size)
	fleet.awaitReady()
	awaitQuiet(t, operator)
	t.Logf("%d DemoApps and %d other resources are deployed after %.1f s", size, len(fleet.others),
		time.Since(begin).Seconds())
	operator.Stop()
	before := fleet.snapshot(t.Context())

	deploy(t, thisTree(t, tree))
	fleet.assertStored(before)
	chartChanged := chartDiffers(t, tree)
	begin = time.Now()
	present := cluster.Launch{Args: append(tree.args, fmt.Sprintf("--max-concurrent-rollouts=%d", maxRollouts))}
	operator = present.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	if chartChanged {
		fleet.awaitRollout(before)
	}
	awaitQuiet(t, operator)
	fleet.awaitReady()
	took := time.Since(begin)
	report := fleet.compare(before, chartChanged)
	requests := requestsOf(t, operator)
	t.Logf("upgrade: %d requests (%s) in %.1f s, chart changed: %t, %s", len(requests), summarize(requests),
		took.Seconds(), chartChanged, report)
	assertBounded(t, requests, fleet.count(), chartChanged)
	assertGradual(t, requests, fleet.namespace)
	operator.Stop()

	before = fleet.snapshot(t.Context())
	operator = present.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	awaitQuiet(t, operator)
	requests = requestsOf(t, operator)
	t.Logf("second start: %d requests (%s)", len(requests), summarize(requests))
	fleet.assertUntouched(before)
	assertNoWork(t, requests, fleet.count())
	operator.Stop()

	if downgrade {
		deployRBAC(t, tree)
		fleet.play("downgrade", old, chartChanged)
		deployRBAC(t, thisTree(t, tree))
		fleet.play("upgrade after it", present, chartChanged)
	}
}

// deploy applies the CRDs and the RBAC of a version and of its kinds.
func deploy(t *testing.T, tree *tree) {
	t.Helper()
	if err := shared.Deploy(t.Context(), tree.dir); err != nil {
		t.Fatal(err)
	}
	for _, kind := range tree.kinds {
		if err := shared.InstallCRDs(t.Context(), tree.path("artifacts/kinds", kind, "crd.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	deployRBAC(t, tree)
}

// deployRBAC applies the RBAC of a version.
func deployRBAC(t *testing.T, tree *tree) {
	t.Helper()
	if err := shared.DeployWithoutCRDs(t.Context(), tree.dir); err != nil {
		t.Fatal(err)
	}
	for _, kind := range tree.kinds {
		if err := shared.ApplyFiles(t.Context(), "", tree.path("artifacts/kinds", kind, "rbac.yaml")); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitQuiet waits until an operator has no work left. An operator asks now and then by a list
// whether it may watch the kinds that wait for a permission.
func awaitQuiet(t *testing.T, operator *cluster.Operator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.DefaultTimeout)
	defer cancel()
	byProcess := cluster.ByProcess(operator)
	err := shared.AwaitAuditQuiet(ctx, quiet, func(event cluster.AuditEvent) bool {
		return byProcess(event) && counts(event) && event.Verb != "list"
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counts selects requests for objects and for the start of an operator: all but watches and the
// lease.
func counts(event cluster.AuditEvent) bool {
	return event.Verb != "watch" && event.Resource != "leases"
}

// requestsOf returns the requests of an operator that count.
func requestsOf(t *testing.T, operator *cluster.Operator) []cluster.AuditEvent {
	t.Helper()
	byProcess := cluster.ByProcess(operator)
	requests, err := shared.AuditRequests(time.Time{}, func(event cluster.AuditEvent) bool {
		return byProcess(event) && counts(event)
	})
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// assertBounded asserts that the requests at the first start of a version are bounded for each
// object.
func assertBounded(t *testing.T, requests []cluster.AuditEvent, objects int, chartChanged bool) {
	t.Helper()
	each := mostPerObject
	if chartChanged {
		each = mostPerUpgrade
	}
	if most := mostToStart + each*objects; len(requests) > most {
		t.Errorf("%d requests for %d objects, at most %d are allowed", len(requests), objects, most)
	}
}

// assertGradual asserts that at most maxRollouts new revisions were deployed at the same time. A
// revision begins with the creation of its record, and ends with the last update of the record.
func assertGradual(t *testing.T, requests []cluster.AuditEvent, namespace string) {
	t.Helper()
	begin, end := map[string]time.Time{}, map[string]time.Time{}
	for _, request := range requests {
		if request.Resource != "secrets" || request.Namespace != namespace {
			continue
		}
		switch request.Verb {
		case "create":
			begin[request.Name] = request.Received
		case "update":
			end[request.Name] = request.Completed
		}
	}
	for record, at := range begin {
		together := 0
		for other := range begin {
			if !begin[other].After(at) && end[other].After(at) {
				together++
			}
		}
		if together > maxRollouts {
			t.Errorf("%d revisions were deployed together with %s, at most %d are allowed", together, record, maxRollouts)
		}
	}
}

// assertNoWork asserts that the operator only sent the requests of a start without work: lists,
// discovery, questions about permissions, and one look at each ConfigMap and Secret that a spec
// names, because these are not cached.
func assertNoWork(t *testing.T, requests []cluster.AuditEvent, objects int) {
	t.Helper()
	var worked, looked []cluster.AuditEvent
	for _, request := range requests {
		switch {
		case request.Verb == "list" || request.Resource == "" || request.Resource == "selfsubjectrulesreviews":
		case request.Verb == "get" && slices.Contains([]string{"keys", "settings", "private-settings"}, request.Name):
			looked = append(looked, request)
		default:
			worked = append(worked, request)
		}
	}
	if len(worked) > 0 {
		t.Errorf("the second start of the new version sent requests:\n%s", apps.Describe(worked))
	}
	if len(looked) > objects {
		t.Errorf("%d looks at sources of values of %d objects", len(looked), objects)
	}
	if most := mostToStart + objects; len(requests) > most {
		t.Errorf("%d requests to start, at most %d are allowed", len(requests), most)
	}
}

// summarize counts requests by verb and resource.
func summarize(requests []cluster.AuditEvent) string {
	counted := map[string]int{}
	for _, request := range requests {
		resource := request.Resource
		if request.Subresource != "" {
			resource += "/" + request.Subresource
		}
		switch {
		case request.Verb == "list":
			counted["list"]++
		case resource == "":
			counted["discovery"]++
		default:
			counted[request.Verb+" "+resource]++
		}
	}
	return strings.Trim(format(counted), "[]")
}
