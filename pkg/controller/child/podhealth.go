// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"maps"
	"slices"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
)

// PodHealth knows why pods of the owners of one kind do not start. The pods have a label whose value
// is the name of their owner. Only what [health.OfPodAt] reads is cached, and nothing of it for a
// healthy pod.
type PodHealth struct{ *Labeled[*corev1.Pod] }

// NewPodHealth returns the health of the pods with the label.
func NewPodHealth(env Informers, kube kubernetes.Interface, label string) (PodHealth, error) {
	return newPodHealth(env, kube, "health of Pods", label, health.ReducePod)
}

// newPodHealth returns the health of pods of which reduce keeps at least what [health.ReducePod]
// does.
func newPodHealth(
	env Informers, kube kubernetes.Interface, resource, label string, reduce func(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod,
) (PodHealth, error) {
	pods, err := NewLabeled(env, resource, label,
		func(namespace string, indexers cache.Indexers, tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
			return corev1informers.NewFilteredPodInformer(kube, namespace, 0, indexers, tweak)
		}, reduce)
	return PodHealth{pods}, err
}

// Names returns the names of the pods of an owner, sorted. Pods that are being deleted are left out.
func (h PodHealth) Names(owner cache.ObjectName) []string {
	var names []string
	for _, pod := range h.Of(owner) {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// FirstFailing says which pod of the Jobs of an owner does not start, why, and what to do: the
// first one by name. It also names a Job that has no pod a minute after its creation. jobs has the
// times of the creation by name. If the answer may change without an event, FirstFailing calls
// retryAfter. It returns an empty text if all pods start.
func (h PodHealth) FirstFailing(owner cache.ObjectName, jobs map[string]time.Time, now time.Time, retryAfter func(time.Duration)) string {
	var first *corev1.Pod
	var text string
	started := map[string]bool{}
	for _, pod := range h.Of(owner) {
		kind, job := health.WorkloadOf(pod)
		if _, ours := jobs[job]; kind != "Job" || !ours {
			continue
		}
		started[job] = true
		problem, fails, again := health.OfPodAt(pod, now)
		if again > 0 {
			retryAfter(again)
		}
		if fails && (first == nil || pod.Name < first.Name) {
			first, text = pod, problem.Of(pod)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		switch wait := jobs[job].Add(podGrace).Sub(now); {
		case started[job]:
		case wait > 0:
			retryAfter(wait)
		case text == "":
			text = fmt.Sprintf("Job %s has no pod: a ResourceQuota or an admission policy refuses it, which kubectl describe job %s explains", job, job)
		}
	}
	return text
}

// podGrace is the time that a Job usually needs at most to create its first pod.
const podGrace = time.Minute

// ExplainedBy makes the health of Deployments and StatefulSets that are not healthy say which pod
// does not start, and why. It must be called before the set is used.
func (s *Set) ExplainedBy(pods PodHealth) *Set {
	s.pods = &pods
	return s
}

// explain adds to the messages of children that are not healthy why their first pod by name does not
// start.
func (p *pass) explain() {
	if p.set.pods == nil {
		return
	}
	type failure struct{ pod, text string }
	found := map[id]failure{}
	for i, child := range p.state.Children {
		if isWorkload(p.state.kinds[i]) && child.Health.Status != kstatus.CurrentStatus {
			found[id{p.state.kinds[i], child.Name}] = failure{}
		}
	}
	if len(found) == 0 {
		return
	}
	for _, pod := range p.set.pods.Of(cache.MetaObjectToName(p.owner)) {
		kind, name := health.WorkloadOf(pod)
		of := id{kind, name}
		first, unhealthy := found[of]
		if !unhealthy {
			continue
		}
		problem, fails, again := health.OfPodAt(pod, p.now)
		if again > 0 {
			p.retryAfter(again)
		}
		if fails && (first.pod == "" || pod.Name < first.pod) {
			found[of] = failure{pod.Name, problem.Of(pod)}
		}
	}
	for i, child := range p.state.Children {
		if text := found[id{p.state.kinds[i], child.Name}].text; text != "" {
			explained := *child // The cache has the child, too.
			explained.Health.Message += ": " + text
			p.state.Children[i] = &explained
		}
	}
}

func isWorkload(kind string) bool { return kind == "Deployment" || kind == "StatefulSet" }
