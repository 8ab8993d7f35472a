// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/shardcache"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// byConfigMap is the index of workloads by namespace and name of the ConfigMaps that their pods
// use.
const byConfigMap = "reload.configmap"

// Options are the names of one use of this package.
type Options struct {
	// Label selects the workloads: those that have it with the value "true".
	Label string
	// Suffix ends the names of the ConfigMaps. Other ConfigMaps are ignored.
	Suffix string
	// Annotation begins the name of the annotation. The name of the ConfigMap without Suffix
	// follows.
	Annotation string
	// FieldManager begins the name of the field manager. "-" and the name of the ConfigMap without
	// Suffix follow: a manager for each ConfigMap, because an apply removes the fields that it
	// leaves out.
	FieldManager string
}

// Workloads are the workloads with a label. Others are not watched. Of each workload the names of
// its ConfigMaps are kept, and the annotations.
type Workloads struct {
	options   Options
	informers map[string]map[string]cache.SharedIndexInformer
	roll      map[string]rollFunc
}

// rollFunc applies fields of the pod template of a workload.
type rollFunc func(ctx context.Context, w *workload, manager string, template *corev1ac.PodTemplateSpecApplyConfiguration) error

// NewWorkloads returns the workloads with the label.
func NewWorkloads(env child.Informers, kube kubernetes.Interface, options Options) (*Workloads, error) {
	w := &Workloads{options: options, informers: map[string]map[string]cache.SharedIndexInformer{}, roll: rollFuncs(kube)}
	indexers := cache.Indexers{byConfigMap: func(object any) (keys []string, _ error) {
		used := object.(*workload)
		for _, name := range used.configMaps {
			keys = append(keys, used.Namespace+"/"+name)
		}
		return keys, nil
	}}
	selects := func(list *metav1.ListOptions) { list.LabelSelector = options.Label + "=true" }
	shards, cached := env.Selection(), cache.SharedIndexInformerOptions{Indexers: indexers}
	builders := map[string]func(namespace string) cache.SharedIndexInformer{
		"Deployment": func(namespace string) cache.SharedIndexInformer {
			return shardcache.NewInformer(shards, kube.AppsV1().Deployments(namespace), kube, &appsv1.Deployment{}, selects, cached)
		},
		"StatefulSet": func(namespace string) cache.SharedIndexInformer {
			return shardcache.NewInformer(shards, kube.AppsV1().StatefulSets(namespace), kube, &appsv1.StatefulSet{}, selects, cached)
		},
		"DaemonSet": func(namespace string) cache.SharedIndexInformer {
			return shardcache.NewInformer(shards, kube.AppsV1().DaemonSets(namespace), kube, &appsv1.DaemonSet{}, selects, cached)
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(builders)) {
		informers, err := env.Informers(w.name(kind), func(namespace string) (cache.SharedIndexInformer, error) {
			informer := builders[kind](namespace)
			return informer, informer.SetTransform(options.reduce)
		})
		if err != nil {
			return nil, err
		}
		w.informers[kind] = informers
	}
	return w, nil
}

func rollFuncs(kube kubernetes.Interface) map[string]rollFunc {
	type template = *corev1ac.PodTemplateSpecApplyConfiguration
	apps := kube.AppsV1()
	return map[string]rollFunc{
		"Deployment": func(ctx context.Context, w *workload, manager string, t template) error {
			fields := appsv1ac.Deployment(w.Name, w.Namespace).WithSpec(appsv1ac.DeploymentSpec().WithTemplate(t))
			_, err := child.ApplyFields(ctx, apps.Deployments(w.Namespace), manager, w.UID, fields)
			return err
		},
		"StatefulSet": func(ctx context.Context, w *workload, manager string, t template) error {
			fields := appsv1ac.StatefulSet(w.Name, w.Namespace).WithSpec(appsv1ac.StatefulSetSpec().WithTemplate(t))
			_, err := child.ApplyFields(ctx, apps.StatefulSets(w.Namespace), manager, w.UID, fields)
			return err
		},
		"DaemonSet": func(ctx context.Context, w *workload, manager string, t template) error {
			fields := appsv1ac.DaemonSet(w.Name, w.Namespace).WithSpec(appsv1ac.DaemonSetSpec().WithTemplate(t))
			_, err := child.ApplyFields(ctx, apps.DaemonSets(w.Namespace), manager, w.UID, fields)
			return err
		},
	}
}

// name is the name of an informer.
func (w *Workloads) name(kind string) string { return kind + "s with label " + w.options.Label }

// Watch queues the owners of the ConfigMaps of a workload that appears, goes, or uses other
// ConfigMaps (reason DependencyReady). owners gets the name of a ConfigMap without Options.Suffix.
func (w *Workloads) Watch(loop child.Loop, owners func(namespace, name string) []cache.ObjectName) error {
	keys := func(used *workload) []cache.ObjectName {
		var keys []cache.ObjectName
		for _, configMap := range used.configMaps {
			keys = append(keys, owners(used.Namespace, strings.TrimSuffix(configMap, w.options.Suffix))...)
		}
		return keys
	}
	why := func(before, after *workload) controller.Reason {
		if before == nil || after == nil || !slices.Equal(before.configMaps, after.configMaps) {
			return controller.DependencyReady
		}
		return 0
	}
	for kind, informers := range w.informers {
		for _, informer := range informers {
			synced, err := controller.AddHandler(w.name(kind), informer, controller.MapHandler(loop.Queue(), keys, why))
			if err != nil {
				return err
			}
			loop.Await(synced)
		}
	}
	return nil
}

// Content is the content of a ConfigMap.
type Content struct {
	// Namespace is the namespace of the ConfigMap, and Name its name without Options.Suffix.
	Namespace, Name string
	Hash            string
	// Changed is a time after the last change; nil for the first content of the ConfigMap.
	Changed *metav1.Time
	// Rolled are the workloads that an earlier Roll returned for this content, as kind/name.
	Rolled []string
}

// Roll rolls the workloads whose pods may have started with earlier content. It returns those that
// were rolled for this content, now or earlier, as kind/name, sorted. A workload that cannot be
// rolled does not keep the others from it. A joined error is a [*child.RefusedError] if the API
// server refused the change.
func (w *Workloads) Roll(ctx context.Context, c Content) ([]string, error) {
	annotation, manager := w.options.Annotation+c.Name, w.options.FieldManager+"-"+c.Name
	template := corev1ac.PodTemplateSpec().WithAnnotations(map[string]string{annotation: c.Hash})
	var rolled []string
	var errs []error
	for _, used := range w.using(c) {
		switch {
		case used.hashes[annotation] == c.Hash, slices.Contains(c.Rolled, used.id()):
			rolled = append(rolled, used.id())
		case isOutdated(used, used.hashes[annotation], c.Changed):
			err := w.roll[used.kind](ctx, used, manager, template)
			switch {
			case err == nil:
				rolled = append(rolled, used.id())
			case ssa.IsGone(err, used.Name), ssa.IsOutdated(err, used.Name), ssa.IsReplaced(err):
				// The workload is gone, or another one has its name. Its event starts a pass.
			default:
				errs = append(errs, rollError(used, err))
			}
		}
	}
	return rolled, errors.Join(errs...)
}

// rollError classifies the error of a roll. The API server's answer alone is in a RefusedError,
// which names the workload.
func rollError(w *workload, err error) error {
	var answer *apierrors.StatusError
	if errors.As(err, &answer) && (apierrors.IsInvalid(answer) || apierrors.IsForbidden(answer)) {
		return &child.RefusedError{Object: child.Named(w.kind, w.Name), Err: answer}
	}
	return err
}

// using returns the workloads that use a ConfigMap, sorted.
func (w *Workloads) using(c Content) []*workload {
	var found []*workload
	for _, informers := range w.informers {
		cached := controller.Scoped[*workload]{}
		for namespace, informer := range informers {
			cached[namespace] = informer.GetIndexer()
		}
		for _, used := range cached.ByIndex(c.Namespace, byConfigMap, c.Namespace+"/"+c.Name+w.options.Suffix) {
			if used.DeletionTimestamp == nil {
				found = append(found, used)
			}
		}
	}
	slices.SortFunc(found, func(a, b *workload) int { return strings.Compare(a.id(), b.id()) })
	return found
}

// clockSkew is by how much the clock of the API server may be ahead of that of the operator. A
// workload that is created this long after a change is rolled without need.
const clockSkew = 2 * time.Second

// isOutdated reports whether pods of a workload may have started with earlier content. Roll rolls a
// workload once for each content, so a client that removes the annotation again and again does not
// make it roll the pods each time.
//
// A workload without the annotation was never rolled. If it is younger than the content, its pods
// have the content. If it is older and began to use the ConfigMap only now, it is rolled without
// need, because nothing tells when it began.
func isOutdated(w *workload, hash string, changed *metav1.Time) bool {
	return hash != "" || changed != nil && !w.CreationTimestamp.After(changed.Add(clockSkew))
}
