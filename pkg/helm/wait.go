// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"helm.sh/helm/v4/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// hookWatchInterval is the time before a broken watch of a hook is restarted.
const hookWatchInterval = time.Second

var (
	jobKind = schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}
	podKind = schema.GroupKind{Group: corev1.GroupName, Kind: "Pod"}
)

const (
	// discoveryPoll is the time between two lookups of a new kind, and discoveryTimeout
	// the longest wait for it.
	discoveryPoll    = 50 * time.Millisecond
	discoveryTimeout = 30 * time.Second
)

// hookWaiter waits only for hooks and for CRDs under crds/.
type hookWaiter struct {
	operation *operation
	// waitsFor names the objects of a wait; empty if it is for one object.
	waitsFor string
}

var _ kube.Waiter = (*hookWaiter)(nil)

// Wait implements kube.Waiter. It waits only for files under crds/, because later objects need them
// and templates may look up their kinds. It does not wait for CRDs in templates, which have the
// release's marks.
func (w *hookWaiter) Wait(resources kube.ResourceList, timeout time.Duration) error {
	found := false
	for _, info := range resources {
		object, err := content(info)
		if err != nil {
			return err
		}
		if !isCRD(object) || w.operation.owned(object) {
			continue
		}
		found = true
		if err := w.served(info, object, timeout); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	capabilities, err := w.operation.engine.mapper.current()
	if err != nil {
		return err
	}
	w.operation.cfg.Capabilities = capabilities
	return nil
}

// served waits until the kind of a CRD is served.
func (w *hookWaiter) served(info *resource.Info, crd *unstructured.Unstructured, timeout time.Duration) error {
	if err := w.until(info, timeout, isCurrent, nil); err != nil {
		return err
	}
	if err := w.discovered(crd); err != nil {
		return fmt.Errorf("%s is not served: %w", reference(info), err)
	}
	return nil
}

// discovered waits until discovery shows the kind of a CRD. Discovery lags behind the CRD.
func (w *hookWaiter) discovered(crd *unstructured.Unstructured) error {
	group, _, err1 := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, err2 := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	served, err := w.operation.engine.mapper.Serves(schema.GroupKind{Group: group, Kind: kind})
	if served || err != nil {
		return err
	}
	end, err := w.operation.beginWait(crdKind.Kind + " " + crd.GetName())
	if err != nil {
		return err
	}
	defer end()
	return wait.PollUntilContextTimeout(w.operation.ctx, discoveryPoll, discoveryTimeout, false, func(context.Context) (bool, error) {
		return w.operation.engine.mapper.Serves(schema.GroupKind{Group: group, Kind: kind})
	})
}

// WaitWithJobs implements kube.Waiter.
func (w *hookWaiter) WaitWithJobs(resources kube.ResourceList, timeout time.Duration) error {
	return w.Wait(resources, timeout)
}

// WaitForDelete implements kube.Waiter. Helm calls it after it has deleted hooks, which it
// may create again, and after it has deleted the objects of a release. It waits for hooks
// only, and not after a hook has failed, because none is created then.
func (w *hookWaiter) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	if w.operation.hookFailed {
		return nil
	}
	for _, info := range resources {
		if !isHook(info) {
			continue
		}
		stillThere := func(*unstructured.Unstructured) (bool, error) { return false, nil }
		if err := w.until(info, timeout, stillThere, nil); err != nil {
			return fmt.Errorf("deletion of hook %w", err)
		}
	}
	return nil
}

// WatchUntilReady implements kube.Waiter. A Job is ready when it has completed, a Pod when
// it has succeeded, a CRD when its kind is served, and any other object when it exists.
func (w *hookWaiter) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	for _, info := range resources {
		object, err := content(info)
		if err != nil {
			return err
		}
		if isCRD(object) {
			// The next hook may be an object of the kind.
			if err := w.served(info, object, timeout); err != nil {
				w.operation.hookFailed = true
				return fmt.Errorf("%shook %w", w.operation.eventsOf(info), err)
			}
			continue
		}
		ended := hookEnd(info)
		if ended == nil {
			continue
		}
		ran := false
		err = w.until(info, timeout, func(object *unstructured.Unstructured) (bool, error) {
			ran = ran || hookRan(object)
			return ended(object)
		}, func(last *unstructured.Unstructured, observed bool) error {
			return deletedHook(object, ended, last, observed)
		})
		if err == nil {
			continue
		}
		w.operation.hookFailed = true
		err = fmt.Errorf("%shook %w", w.operation.eventsOf(info), err)
		if ran && !apierrors.IsForbidden(err) {
			return &HookError{Err: err}
		}
		return err
	}
	return nil
}

// hookEnd returns the function that reports whether a Job or a Pod has ended, and fails if it has failed.
// hookEnd returns nil for other kinds.
func hookEnd(info *resource.Info) func(*unstructured.Unstructured) (bool, error) {
	switch info.Mapping.GroupVersionKind.GroupKind() {
	case jobKind:
		return jobEnded
	case podKind:
		return podEnded
	default:
		return nil
	}
}

// deletedHook returns the error of a hook that was deleted during the wait for its end. last is its last
// known state, or nil. If its deletion was observed, last is its state then. Otherwise a Job with a time
// to live may have ended unseen, and counts as done.
func deletedHook(
	desired *unstructured.Unstructured, ended func(*unstructured.Unstructured) (bool, error), last *unstructured.Unstructured, observed bool,
) error {
	if last != nil {
		if done, err := ended(last); done || err != nil {
			return err
		}
	}
	if _, expires, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "ttlSecondsAfterFinished"); expires && !observed {
		return nil
	}
	return errors.New("was deleted before it ended")
}

// eventsOf returns the events at which the operation runs a hook, as the start of a message.
func (o *operation) eventsOf(info *resource.Info) string {
	object, err := content(info)
	if err != nil {
		return ""
	}
	var events []string
	for event := range strings.SplitSeq(object.GetAnnotations()[manifest.HookAnnotation], ",") {
		if event = strings.TrimSpace(event); strings.HasSuffix(event, "-"+o.phase) {
			events = append(events, event)
		}
	}
	if len(events) == 0 {
		return ""
	}
	return fmt.Sprintf("%.63s ", strings.Join(events, ", "))
}

// until watches one object until the condition holds or the object is gone. It restarts a
// watch that breaks. gone returns the error for an object that is gone; nil for no error. Its
// arguments are the last known state, or nil, and whether the deletion was observed.
func (w *hookWaiter) until(
	info *resource.Info, timeout time.Duration, condition func(*unstructured.Unstructured) (bool, error),
	gone func(last *unstructured.Unstructured, observed bool) error,
) error {
	if timeout <= 0 {
		timeout = w.operation.limits.timeout
	}
	ctx, cancel := context.WithTimeout(w.operation.ctx, timeout)
	defer cancel()
	started := w.operation.engine.clock.Now()
	var (
		last    *unstructured.Unstructured
		verdict error
	)
	slow := &slowWait{operation: w.operation, objects: cmp.Or(w.waitsFor, reference(info).String())}
	defer slow.end()
	judge := func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if ok && object.GetName() != info.Name {
			return false, nil
		}
		var done bool
		switch {
		case event.Type != watch.Deleted && !ok:
			return false, nil
		case event.Type != watch.Deleted:
			last = object
			done, verdict = condition(object)
		case gone != nil:
			// A time to live or another client may remove a hook before its end was observed.
			if ok {
				last = object
			}
			verdict = gone(last, ok)
			done = verdict == nil
		default:
			done = true
		}
		return done, verdict
	}
	err := wait.PollUntilContextCancel(ctx, hookWatchInterval, true, func(ctx context.Context) (bool, error) {
		err := w.follow(ctx, info, slow, judge)
		if err == nil || verdict != nil || slow.refused != nil || apierrors.IsForbidden(err) {
			return err == nil, err
		}
		w.operation.logger.DebugContext(ctx, "The watch of a hook ended", slog.String("target", reference(info).String()), slog.Any("err", err))
		return false, slow.begin()
	})
	switch {
	case slow.refused != nil:
		err = slow.refused
	case wait.Interrupted(err):
		err = w.timedOut(info, last, w.operation.engine.clock.Since(started).Round(time.Second))
	case err == nil:
		return nil
	}
	return fmt.Errorf("%s: %w", reference(info), err)
}

// timedOut returns the error of a wait that has reached its timeout.
func (w *hookWaiter) timedOut(info *resource.Info, last *unstructured.Unstructured, took time.Duration) error {
	if last == nil {
		return fmt.Errorf("not ready after %s", took)
	}
	if last.GetDeletionTimestamp() != nil {
		if reason := waitsFor(last.GetFinalizers()); reason != "" {
			return fmt.Errorf("not deleted after %s: %s", took, reason)
		}
	}
	explained := w.explain(ObjectHealth{reference(info), health.Of(last)}).Message
	if suspended, _, _ := unstructured.NestedBool(last.Object, "spec", "suspend"); suspended && hookEnd(info) != nil {
		explained = "spec.suspend is true: set it to false in the chart, or look at the controller that queues Jobs"
	}
	if explained == "" {
		return fmt.Errorf("not ready after %s", took)
	}
	return fmt.Errorf("not ready after %s: %s", took, explained)
}

// explain adds to the health of a Job why its pod does not start, or cannot be created. The time of
// the operation may be over.
func (w *hookWaiter) explain(object ObjectHealth) ObjectHealth {
	if object.Object.Kind != jobKind.Kind || object.Selector == "" {
		return object
	}
	failing, err := w.operation.engine.FailingPod(w.operation.cleanup, object)
	if err != nil {
		// The health alone is reported, as without the permission.
		w.operation.logger.DebugContext(w.operation.cleanup, "Pods of a hook are not explained", slog.Any("err", err))
	}
	if failing != "" {
		object.Health = object.Explained(failing)
	}
	return object
}

// follow passes an object and its changes to judge, until judge is done or the object does
// not exist. The slow wait begins if the first state does not end it.
func (w *hookWaiter) follow(ctx context.Context, info *resource.Info, slow *slowWait, judge watchtools.ConditionFunc) error {
	client := w.operation.client(info)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, info.Name).String()
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if done, err := judge(watch.Event{Type: watch.Added, Object: &list.Items[i]}); done || err != nil {
			return err
		}
	}
	if len(list.Items) == 0 {
		_, err := judge(watch.Event{Type: watch.Deleted})
		return err
	}
	if err := slow.begin(); err != nil {
		return err
	}
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return client.Watch(ctx, options)
		},
	}, judge)
	return err
}

// hookRan reports whether a Job ever had a pod, or whether a Pod was ever started. Otherwise a quota,
// an admission policy or a lack of nodes may keep the hook from running.
func hookRan(object *unstructured.Unstructured) bool {
	if phase, isPod, _ := unstructured.NestedString(object.Object, "status", "phase"); isPod {
		return corev1.PodPhase(phase) != corev1.PodPending
	}
	for _, field := range []string{"active", "succeeded", "failed"} {
		if count, _, _ := unstructured.NestedInt64(object.Object, "status", field); count > 0 {
			return true
		}
	}
	return false
}

func isCurrent(object *unstructured.Unstructured) (bool, error) {
	return health.Of(object).Status == status.CurrentStatus, nil
}

func jobEnded(object *unstructured.Unstructured) (bool, error) {
	var job batchv1.Job
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &job); err != nil {
		return false, err
	}
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return true, nil
		case batchv1.JobFailed:
			return false, fmt.Errorf("job failed: %s: %s", condition.Reason, condition.Message)
		}
	}
	return false, nil
}

func podEnded(object *unstructured.Unstructured) (bool, error) {
	phase, _, err := unstructured.NestedString(object.Object, "status", "phase")
	switch corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return true, nil
	case corev1.PodFailed:
		message, _, _ := unstructured.NestedString(object.Object, "status", "message")
		return false, fmt.Errorf("pod failed: %s", message)
	default:
		return false, err
	}
}
