// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
)

// snapshot is the state of a fleet.
type snapshot struct {
	// custom has the custom resources by resource and name.
	custom map[string]*unstructured.Unstructured
	// pods has the UID and the restarts of each pod, and templates the pod template of each
	// Deployment and StatefulSet.
	pods, templates map[string]string
	// replicas is the number of pods that these have together.
	replicas int
	// revisions has the revisions of each release with their status.
	revisions map[string][]string
}

func (f *fleet) snapshot(ctx context.Context) snapshot {
	f.t.Helper()
	s := snapshot{
		custom: f.custom(ctx), pods: map[string]string{}, templates: map[string]string{}, revisions: map[string][]string{},
	}
	pods, err := shared.Client.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		var restarts int32
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		s.pods[pod.Name] = fmt.Sprintf("%s, %d restarts", pod.UID, restarts)
	}
	deployments, err := shared.Client.AppsV1().Deployments(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		f.addTemplate(&s, deployment, deployment.Spec.Replicas, deployment.Spec.Template)
	}
	sets, err := shared.Client.AppsV1().StatefulSets(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		f.addTemplate(&s, set, set.Spec.Replicas, set.Spec.Template)
	}
	records, err := shared.Client.CoreV1().Secrets(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range records.Items {
		labels := records.Items[i].Labels
		s.revisions[labels["name"]] = append(s.revisions[labels["name"]], labels["version"]+" "+labels["status"])
	}
	for _, revisions := range s.revisions {
		slices.Sort(revisions)
	}
	return s
}

// addTemplate adds a Deployment or StatefulSet to a snapshot.
func (f *fleet) addTemplate(s *snapshot, owner metav1.Object, replicas *int32, template corev1.PodTemplateSpec) {
	f.t.Helper()
	encoded, err := json.Marshal(template)
	if err != nil {
		f.t.Fatal(err)
	}
	s.replicas += int(ptr.Deref(replicas, 1))
	s.templates[owner.GetName()] = fmt.Sprintf("%s %s", owner.GetUID(), encoded)
}

// awaitRollout waits until each DemoApp has a revision of the changed chart.
func (f *fleet) awaitRollout(before snapshot) {
	f.t.Helper()
	cluster.Eventually(f.t.Context(), f.t, "revisions of the new chart", func(ctx context.Context) (bool, error) {
		for release, revisions := range f.snapshot(ctx).revisions {
			if f.isDemoApp(release) && newest(revisions) <= newest(before.revisions[release]) {
				return false, fmt.Errorf("release %s has the revisions %q", release, revisions)
			}
		}
		return true, nil
	})
}

// newest returns the number of the newest revision. The history keeps only the last ones.
func newest(revisions []string) int {
	latest := 0
	for _, revision := range revisions {
		text, _, _ := strings.Cut(revision, " ")
		number, _ := strconv.Atoi(text) // Helm's label is a number.
		latest = max(latest, number)
	}
	return latest
}

// assertComplete asserts that a snapshot has the release and the Deployment of each DemoApp, and
// all pods of the Deployments. A comparison with an empty snapshot would find no difference.
func (f *fleet) assertComplete(s snapshot) {
	f.t.Helper()
	for id := range s.custom {
		plural, name, _ := strings.Cut(id, "/")
		if plural != demoApps.Resource {
			continue
		}
		if len(s.revisions[name]) == 0 {
			f.t.Errorf("DemoApp %s has no release", name)
		}
		if s.templates[name] == "" {
			f.t.Errorf("DemoApp %s has no Deployment", name)
		}
	}
	if s.replicas == 0 || len(s.pods) < s.replicas {
		f.t.Errorf("%d pods for %d replicas of all Deployments and StatefulSets", len(s.pods), s.replicas)
	}
}

// rolled are the workloads that an upgrade from an older version rolls once, because they get resource
// requests, or because that version did not record their templates: see docs/upgrade.md.
var rolled = regexp.MustCompile(`^((appstack|shop)-sample-(backend|frontend|cache|db)|(memcachedbackup|webapp|website)-sample)(-|$)`)

// kept returns the entries of a snapshot that must not change.
func kept(entries map[string]string) map[string]string {
	entries = maps.Clone(entries)
	maps.DeleteFunc(entries, func(name, _ string) bool { return rolled.MatchString(name) })
	return entries
}

// compare asserts that no pod was restarted and no pod template changed since before, and that each
// release has the same revisions as before. If the chart has changed, each release has exactly one
// more. compare returns a report.
func (f *fleet) compare(before snapshot, chartChanged bool) string {
	f.t.Helper()
	f.assertComplete(before)
	after := f.snapshot(f.t.Context())
	if difference := cmp.Diff(kept(before.pods), kept(after.pods)); difference != "" {
		f.t.Errorf("pods differ (-before +after):\n%s", difference)
	}
	if difference := cmp.Diff(kept(before.templates), kept(after.templates)); difference != "" {
		f.t.Errorf("pod templates differ (-before +after):\n%s", difference)
	}
	added := 0
	for release, revisions := range after.revisions {
		more := newest(revisions) - newest(before.revisions[release])
		added += more
		expected := 0
		if chartChanged && f.isDemoApp(release) {
			expected = 1
		}
		if more != expected {
			f.t.Errorf("release %s has the revisions %q, before the upgrade %q", release, revisions, before.revisions[release])
		}
	}
	releases := func(s snapshot) []string { return slices.Sorted(maps.Keys(s.revisions)) }
	if difference := cmp.Diff(releases(before), releases(after)); difference != "" {
		f.t.Errorf("releases differ (-before +after):\n%s", difference)
	}
	return fmt.Sprintf("%d pods, %d releases, %d new revisions", len(after.pods), len(after.revisions), added)
}

// isDemoApp reports whether a release belongs to a DemoApp, whose chart is embedded.
func (f *fleet) isDemoApp(release string) bool {
	return !slices.ContainsFunc(f.others, func(o *unstructured.Unstructured) bool { return o.GetName() == release })
}

// assertUntouched asserts that nothing has changed since before, not even a status.
func (f *fleet) assertUntouched(before snapshot) {
	f.t.Helper()
	after := f.snapshot(f.t.Context())
	for id, object := range before.custom {
		if after.custom[id] == nil || after.custom[id].GetResourceVersion() != object.GetResourceVersion() {
			f.t.Errorf("%s was written: %s", id, cmp.Diff(object, after.custom[id]))
		}
	}
	f.compare(before, false)
}

// play runs an operator on the state of another version. It touches no pods, and gives each release a
// revision if the chart differs, until a DemoApp changes.
func (f *fleet) play(what string, launch cluster.Launch, chartChanged bool) {
	f.t.Helper()
	before := f.snapshot(f.t.Context())
	operator := launch.Start(f.t.Context(), f.t, shared).AwaitReady(f.t.Context(), f.t)
	if chartChanged {
		f.awaitRollout(before)
	}
	awaitQuiet(f.t, operator)
	f.awaitReady()
	requests := requestsOf(f.t, operator)
	f.t.Logf("%s: %d requests (%s), %s", what, len(requests), summarize(requests), f.compare(before, chartChanged))
	f.change("Message after the " + what)
	operator.Stop()
}

// changed is a DemoApp without pods.
const changed = "web-002"

// change gives one DemoApp another message, and waits until the operator has deployed it.
func (f *fleet) change(message string) {
	f.t.Helper()
	client := shared.Dynamic.Resource(demoApps).Namespace(f.namespace)
	change := fmt.Appendf(nil, `{"spec": {"message": %q}}`, message)
	_, err := client.Patch(f.t.Context(), changed, types.MergePatchType, change, metav1.PatchOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	cluster.Eventually(f.t.Context(), f.t, "the changed DemoApp is ready", func(ctx context.Context) (bool, error) {
		page, err := shared.Client.CoreV1().ConfigMaps(f.namespace).Get(ctx, changed, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		app, err := client.Get(ctx, changed, metav1.GetOptions{})
		return err == nil && isReady(app) && strings.Contains(page.Data["index.html"], message), err
	})
}

// format returns counts in the order of their names.
func format(counted map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		parts = append(parts, fmt.Sprintf("%d %s", counted[name], name))
	}
	return strings.Join(parts, ", ")
}
