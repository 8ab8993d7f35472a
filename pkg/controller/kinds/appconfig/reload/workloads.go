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

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/shardcache"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// byConfigMap is the index of workloads by namespace and name of the ConfigMaps that their pods
// use.
const byConfigMap = "reload.configmap"

// Options are the names of one use of this package.
type Options struct {
	// Label opts a workload out if it has the value "false". Earlier versions of the operator rolled only
	// workloads with the value "true".
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

// Workloads are all workloads but those that a label opts out, which are not watched. Of each workload the
// names of its ConfigMaps are kept, the annotations, and the health.
type Workloads struct {
	options   Options
	informers map[string]map[string]cache.SharedIndexInformer
	roll      map[string]rollFunc
	// rolls has the generation that a roll gave to a workload, by UID. The cache has seen the roll when it
	// shows that generation.
	rolls expiring.Map[types.UID, int64]
}

// cacheLag is how long the cache may be behind a roll.
const cacheLag = 10 * time.Minute

// rollFunc applies fields of the pod template of a workload, and returns the generation of the workload.
type rollFunc func(ctx context.Context, w *workload, manager string, template *corev1ac.PodTemplateSpecApplyConfiguration) (int64, error)

// NewWorkloads returns the workloads without the label that opts out.
func NewWorkloads(env child.Informers, kube kubernetes.Interface, options Options) (*Workloads, error) {
	w := &Workloads{options: options, informers: map[string]map[string]cache.SharedIndexInformer{}, roll: rollFuncs(kube)}
	indexers := cache.Indexers{byConfigMap: func(object any) (keys []string, _ error) {
		used := object.(*workload)
		for _, name := range used.configMaps {
			keys = append(keys, used.Namespace+"/"+name)
		}
		return keys, nil
	}}
	selects := func(list *metav1.ListOptions) { list.LabelSelector = options.Label + "!=false" }
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
		"Deployment": func(ctx context.Context, w *workload, manager string, t template) (int64, error) {
			fields := appsv1ac.Deployment(w.Name, w.Namespace).WithSpec(appsv1ac.DeploymentSpec().WithTemplate(t))
			return generationOf(child.ApplyFields(ctx, apps.Deployments(w.Namespace), manager, w.UID, fields))
		},
		"StatefulSet": func(ctx context.Context, w *workload, manager string, t template) (int64, error) {
			fields := appsv1ac.StatefulSet(w.Name, w.Namespace).WithSpec(appsv1ac.StatefulSetSpec().WithTemplate(t))
			return generationOf(child.ApplyFields(ctx, apps.StatefulSets(w.Namespace), manager, w.UID, fields))
		},
		"DaemonSet": func(ctx context.Context, w *workload, manager string, t template) (int64, error) {
			fields := appsv1ac.DaemonSet(w.Name, w.Namespace).WithSpec(appsv1ac.DaemonSetSpec().WithTemplate(t))
			return generationOf(child.ApplyFields(ctx, apps.DaemonSets(w.Namespace), manager, w.UID, fields))
		},
	}
}

// name is the name of an informer.
// generationOf returns the generation of the API server's answer.
func generationOf(applied metav1.Object, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return applied.GetGeneration(), nil
}

func (w *Workloads) name(kind string) string {
	return kind + "s without label " + w.options.Label + "=false"
}

// Watch queues the owners of the ConfigMaps of a workload that appears, goes, uses other ConfigMaps, is
// rolled, or whose health changes (reason DependencyReady). owners gets the name of a ConfigMap without Options.Suffix.
func (w *Workloads) Watch(loop child.Loop, owners func(namespace, name string) []cache.ObjectName) error {
	keys := func(used *workload) []cache.ObjectName {
		var keys []cache.ObjectName
		for _, configMap := range used.configMaps {
			keys = append(keys, owners(used.Namespace, strings.TrimSuffix(configMap, w.options.Suffix))...)
		}
		return keys
	}
	why := func(before, after *workload) controller.Reason {
		if before == nil || after == nil || !slices.Equal(before.configMaps, after.configMaps) ||
			!maps.Equal(before.hashes, after.hashes) || before.health != after.health {
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
	// ByLabel says that the content is older than the rule that all workloads roll. Only those with
	// Options.Label "true" are then rolled for it.
	ByLabel bool
}

// Rolled is a workload that was rolled for a content.
type Rolled struct {
	// ID is kind/name.
	ID string
	// Now says that this call rolled it.
	Now bool
	// Status is one of the results of kstatus: InProgress while pods have earlier content, and Failed if the
	// rollout of the workload failed. Message says why it is not Current.
	Status  status.Status
	Message string
}

// Roll rolls the workloads whose pods may have started with earlier content. It returns those that
// were rolled for this content, now or earlier, sorted. A failure with one workload does not keep
// Roll from the rest. A joined error is a [*child.RefusedError] if the API server refused the
// change.
func (w *Workloads) Roll(ctx context.Context, c Content, now time.Time) ([]Rolled, error) {
	annotation, manager := w.options.Annotation+c.Name, w.options.FieldManager+"-"+c.Name
	template := corev1ac.PodTemplateSpec().WithAnnotations(map[string]string{annotation: c.Hash})
	var rolled []Rolled
	var errs []error
	for _, used := range w.using(c) {
		switch {
		case used.hashes[annotation] == c.Hash, slices.Contains(c.Rolled, used.id()):
			rolled = append(rolled, w.rolledBefore(used, now))
		case c.ByLabel && !used.asksFor:
		case isOutdated(used, used.hashes[annotation], c.Changed):
			generation, err := w.roll[used.kind](ctx, used, manager, template)
			switch {
			case err == nil:
				w.rolls.Set(used.UID, generation, cacheLag, now)
				rolled = append(rolled, Rolled{ID: used.id(), Now: true, Status: status.InProgressStatus})
			case ssa.IsGone(err, used.Name), ssa.IsOutdated(err, used.Name), ssa.IsReplaced(err):
				// The workload is gone, or another one has its name. Its event starts a pass.
			default:
				errs = append(errs, rollError(used, err))
			}
		}
	}
	return rolled, errors.Join(errs...)
}

// Summarize returns the worst status of rolled workloads, and a message, which stays the same while they
// become Current one after another. If done, all of them were Current before: only workloads rolled in
// this call count.
func Summarize(rolled []Rolled, done bool) (worst status.Status, message string) {
	var failed, all []string
	isRolling := false
	for _, workload := range rolled {
		if done && !workload.Now {
			continue
		}
		all = append(all, workload.ID)
		switch workload.Status {
		case status.CurrentStatus:
		case status.FailedStatus:
			failed = append(failed, workload.ID+": "+workload.Message)
		default:
			isRolling = true
		}
	}
	switch {
	case len(failed) > 0:
		return status.FailedStatus, "Workloads do not become healthy with the content: " + strings.Join(failed, "; ")
	case isRolling:
		return status.InProgressStatus, "Pods get the content: " + strings.Join(all, ", ")
	case len(rolled) > 0:
		return status.CurrentStatus, "All workloads that were rolled have the content"
	default:
		return status.CurrentStatus, "No workload had to be rolled for the content"
	}
}

// rolledBefore returns a workload that an earlier call rolled, with its health after the roll. The health
// compares the observed generation, so that it is about the pods of this roll once the cache has the
// generation of the roll. A newer resourceVersion alone may be a status from before the roll.
func (w *Workloads) rolledBefore(used *workload, now time.Time) Rolled {
	if generation, known := w.rolls.Get(used.UID, now); known && used.Generation < generation {
		return Rolled{ID: used.id(), Status: status.InProgressStatus}
	}
	return Rolled{ID: used.id(), Status: used.health.Status, Message: used.health.Message}
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

// clockSkew is by how much the clock of the API server may be ahead of the operator's clock. A
// workload that is created this long after a change is rolled without need.
const clockSkew = 2 * time.Second

// isOutdated reports whether pods of a workload may have started with earlier content. Roll rolls a
// workload once for each content, so a client that removes the annotation repeatedly does not make
// it roll the pods each time.
//
// A workload without the annotation was never rolled. If it is younger than the content, its pods
// have the content. If it is older and began to use the ConfigMap only now, it is rolled without
// need, because the time of that beginning is unknown.
func isOutdated(w *workload, hash string, changed *metav1.Time) bool {
	return hash != "" || changed != nil && !w.CreationTimestamp.After(changed.Add(clockSkew))
}
