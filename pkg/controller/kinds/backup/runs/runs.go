// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// maxText bounds texts of Jobs and pods, in bytes.
const maxText = 1024

// Runs are the Jobs of the owners of one kind. The Jobs have a label whose value is the name of
// their owner. Only Jobs with the label are watched.
type Runs struct {
	label     string
	kube      kubernetes.Interface
	informers map[string]cache.SharedIndexInformer
	cached    controller.Scoped[*batchv1.Job]
}

// New returns the Jobs with the label.
func New(env child.Informers, kube kubernetes.Interface, label string) (*Runs, error) {
	informers, err := env.Informers("Jobs with label "+label, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := shardcache.NewInformer(env.Selection(), kube.BatchV1().Jobs(namespace), kube, &batchv1.Job{},
			func(options *metav1.ListOptions) { options.LabelSelector = label },
			cache.SharedIndexInformerOptions{Indexers: cache.Indexers{label: ownerIndex(label)}})
		return informer, informer.SetTransform(func(object any) (any, error) { return reduce(object, label), nil })
	})
	if err != nil {
		return nil, err
	}
	r := &Runs{label: label, kube: kube, informers: informers, cached: controller.Scoped[*batchv1.Job]{}}
	for namespace, informer := range informers {
		r.cached[namespace] = informer.GetIndexer()
	}
	return r, nil
}

// ownerIndex indexes Jobs by namespace and name of their owner.
func ownerIndex(label string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		job, ok := object.(*batchv1.Job)
		if !ok {
			return nil, nil
		}
		return []string{job.Namespace + "/" + job.Labels[label]}, nil
	}
}

// reduce keeps the fields that Runs reads. Tenants write the remaining fields, which can be large.
func reduce(object any, label string) any {
	whole, ok := object.(*batchv1.Job)
	if !ok {
		return object
	}
	kept := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		CreationTimestamp: whole.CreationTimestamp, Labels: map[string]string{label: whole.Labels[label]},
	}}
	if owner := metav1.GetControllerOf(whole); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if at, err := time.Parse(time.RFC3339, whole.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil {
		kept.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: at.UTC().Format(time.RFC3339)}
	}
	kept.Status.CompletionTime = whole.Status.CompletionTime
	for _, condition := range whole.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobFailed || condition.Type == batchv1.JobComplete) {
			kept.Status.Conditions = append(kept.Status.Conditions, batchv1.JobCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
				Reason: oneLine(condition.Reason), Message: oneLine(condition.Message),
			})
		}
	}
	return kept
}

func oneLine(text string) string {
	text, _ = message.Beginning(text, maxText)
	return message.Line(text, maxText)
}

// Watch queues an owner when one of its Jobs is created or ends (reason HealthChange).
func (r *Runs) Watch(loop child.Loop) error {
	owners := func(job *batchv1.Job) []cache.ObjectName {
		return []cache.ObjectName{cache.NewObjectName(job.Namespace, job.Labels[r.label])}
	}
	why := func(before, after *batchv1.Job) controller.Reason {
		if after == nil || before != nil && apiequality.Semantic.DeepEqual(before.Status, after.Status) {
			return 0
		}
		return controller.HealthChange
	}
	for _, informer := range r.informers {
		synced, err := controller.AddHandler("Jobs with label "+r.label, informer, controller.MapHandler(loop.Queue(), owners, why))
		if err != nil {
			return err
		}
		loop.Await(synced)
	}
	return nil
}
