// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
)

// PodHealth knows why pods of the owners of one kind do not start. The pods have a label whose
// value is the name of their owner. Only what [health.Explain] reads is cached, and nothing of it
// for a healthy pod.
type PodHealth struct {
	*Labeled[*corev1.Pod]

	looks *looks
}

// NewPodHealth returns the health of the pods with the label.
func NewPodHealth(env Informers, kube kubernetes.Interface, label string) (PodHealth, error) {
	return newPodHealth(env, kube, "health of Pods", label, health.ReducePod)
}

// newPodHealth returns the health of pods of which reduce keeps at least what [health.ReducePod]
// does.
func newPodHealth(
	env Informers, kube kubernetes.Interface, resource, label string, reduce func(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod,
) (PodHealth, error) {
	pods, err := NewLabeled(env, resource, label, kube, kube.CoreV1().Pods, reduce)
	return PodHealth{pods, &looks{events: kube.CoreV1()}}, err
}

// Names returns the names of the pods of an owner, sorted. Pods that are being deleted are left
// out.
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
// first one by name. It also names a Job that has no pod: as soon as an event says why, and without
// one a minute after its creation. If the answer may change without an event of a watch,
// FirstFailing calls retryAfter. It returns an empty text if all pods start.
func (h PodHealth) FirstFailing(
	ctx context.Context, owner cache.ObjectName, jobs []*batchv1.Job, now time.Time, retryAfter func(time.Duration),
) string {
	var pods []*corev1.Pod
	started := map[string]bool{}
	for _, pod := range h.Of(owner) {
		kind, name := health.WorkloadOf(pod)
		if kind != "Job" || !slices.ContainsFunc(jobs, func(job *batchv1.Job) bool { return job.Name == name }) {
			continue
		}
		started[name] = true
		if !health.HasFailed(pod) { // The Job decides whether it tries again.
			pods = append(pods, pod)
		}
	}
	text := h.firstFailing(ctx, pods, now, retryAfter)
	for _, job := range slices.SortedFunc(slices.Values(jobs), func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) }) {
		if text == "" && !started[job.Name] {
			text = h.withoutPod(ctx, job, now, retryAfter)
		}
	}
	return text
}

// firstFailing says which of the pods fails, and why; empty if none does.
func (h PodHealth) firstFailing(ctx context.Context, pods []*corev1.Pod, now time.Time, retryAfter func(time.Duration)) string {
	failing, fails, again := health.FirstFailing(pods, now)
	if again > 0 {
		retryAfter(again)
	}
	if !fails {
		return ""
	}
	text, again := h.looks.explained(ctx, failing, now)
	if again > 0 {
		retryAfter(again)
	}
	return text
}

// withoutPod says why a Job has no pod. The text is empty while the Job may still create one.
func (h PodHealth) withoutPod(ctx context.Context, job *batchv1.Job, now time.Time, retryAfter func(time.Duration)) string {
	refused, again := h.looks.refusal(ctx, job, job.CreationTimestamp.Time, now)
	retryAfter(again)
	grace := podGrace - now.Sub(job.CreationTimestamp.Time)
	switch {
	case refused != "":
		return fmt.Sprintf("Job %s has no pod: %s", job.Name, refused)
	case grace > 0:
		retryAfter(grace)
		return ""
	default:
		return fmt.Sprintf("Job %s has no pod: a ResourceQuota or an admission policy refuses it, which kubectl describe job %s explains", job.Name, job.Name)
	}
}

// podGrace is the time that a Job usually needs at most to create its first pod.
const podGrace = time.Minute

// ExplainedBy makes the health of Deployments and StatefulSets that are not healthy say which pod
// does not start, or why one cannot be created. It must be called before the set is used.
func (s *Set) ExplainedBy(pods PodHealth) *Set {
	s.pods = &pods
	return s
}

// explain adds to the messages of children that are not healthy why their pods do not start.
func (p *pass) explain(ctx context.Context) {
	if p.set.pods != nil {
		p.explainPods(ctx)
		p.explainMissingPods(ctx)
	}
}

// explainPods adds to the messages of children that are not healthy which of their pods fails, and
// why.
func (p *pass) explainPods(ctx context.Context) {
	var unhealthy []int
	for i, child := range p.state.Children {
		if isWorkload(p.state.kinds[i]) && child.Health.Status != kstatus.CurrentStatus {
			unhealthy = append(unhealthy, i)
		}
	}
	if len(unhealthy) == 0 {
		return
	}
	byWorkload := map[id][]*corev1.Pod{}
	for _, pod := range p.set.pods.Of(cache.MetaObjectToName(p.owner)) {
		kind, name := health.WorkloadOf(pod)
		byWorkload[id{kind, name}] = append(byWorkload[id{kind, name}], pod)
	}
	for _, i := range unhealthy {
		pods := byWorkload[id{p.state.kinds[i], p.state.Children[i].Name}]
		if text := p.set.pods.firstFailing(ctx, pods, p.now, p.retryAfter); text != "" {
			p.explainChild(i, text)
		}
	}
}

// explainMissingPods adds to the messages of StatefulSets that lack pods why they cannot be
// created.
func (p *pass) explainMissingPods(ctx context.Context) {
	for i, child := range p.state.Children {
		switch {
		case p.state.kinds[i] != "StatefulSet":
		case child.Health.PodsMissing == "":
			p.set.pods.looks.forget(child)
		default:
			text, again := p.set.pods.looks.refusal(ctx, child, p.now, p.now)
			p.retryAfter(again)
			if text != "" {
				p.explainChild(i, text)
			}
		}
	}
}

// explainChild adds a reason to the health of a child. The cache has the child, too.
func (p *pass) explainChild(i int, reason string) {
	explained := *p.state.Children[i]
	explained.Health = explained.Health.Explained(reason)
	p.state.Children[i] = &explained
}

func isWorkload(kind string) bool { return kind == "Deployment" || kind == "StatefulSet" }
