// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/runs"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/secretkeys"
	backupclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/backup/v1"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/window"
)

// Name is the controller's name in logs and metrics.
const Name = "backup"

// bySecret is the index of Backups by the Secrets that they name.
const bySecret = "backup.secret"

// Kind is the kind of the owners of the children.
var Kind = backupv1.SchemeGroupVersion.WithKind("Backup")

type (
	pass = kind.Pass[*backupv1.Backup]
	loop = kind.Loop[*backupv1.Backup, backupv1.BackupStatus]
)

// reconciler has the clients and caches of a pass.
type reconciler struct {
	children *child.Set
	runs     *runs.Runs
	pods     child.PodHealth
	secrets  *secretkeys.Keys
	images   images.Table
	// namespaces has the UIDs of namespaces, if the operator may watch them.
	namespaces *controller.Namespaces
}

// New wires the controller of Backups, of their children, and of their runs and pods. It starts
// nothing.
func New(
	client backupclient.BackupsGetter, children *child.Set, jobs *runs.Runs, pods child.PodHealth, secrets *secretkeys.Keys, pull images.Table, deps kind.Deps,
) (*loop, error) {
	l, err := kind.New(kind.Definition[*backupv1.Backup, backupv1.BackupStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Annotations: []string{backupv1.AnnotationRunNow},
		Client:      func(namespace string) controller.Patcher[*backupv1.Backup] { return client.Backups(namespace) },
		Status:      func(b *backupv1.Backup) *backupv1.BackupStatus { return &b.Status },
		Conditions:  func(s *backupv1.BackupStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:       reconciler{children, jobs, pods, secrets, pull, deps.Namespaces}.reconcile,
		Hold: func(written, next backupv1.BackupStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events: transitions,
		Gates: []kind.Gate{
			{Name: "suspend", Condition: backupv1.ConditionScheduled, Status: metav1.ConditionFalse, Reasons: []string{backupv1.ReasonSuspended}},
			kind.HeldFor("key", backupv1.ReasonSecretNotFound, backupv1.ReasonKeyNotFound),
		},
	}, deps)
	if err != nil {
		return nil, err
	}
	for _, informer := range deps.Informers {
		if informer.GetIndexer().GetIndexers()[bySecret] != nil {
			continue // A former build of the kind has added the index.
		}
		if err := informer.AddIndexers(cache.Indexers{bySecret: secretsOf}); err != nil {
			return nil, fmt.Errorf("index Backups: %w", err)
		}
	}
	users := func(secret cache.ObjectName) (keys []cache.ObjectName) {
		for _, b := range l.Cached().ByIndex(secret.Namespace, bySecret, secret.String()) {
			keys = append(keys, cache.MetaObjectToName(b))
		}
		return keys
	}
	return l, errors.Join(children.Watch(l), jobs.Watch(l), pods.Watch(l), secrets.Watch(l, users))
}

func secretsOf(object any) (names []string, _ error) {
	if b, ok := object.(*backupv1.Backup); ok {
		for _, reference := range dump.References(b) {
			names = append(names, b.Namespace+"/"+reference.Secret)
		}
	}
	return names, nil
}

// SecretKeys returns all keys that the Secrets of Backups may need.
func SecretKeys() []string {
	return append(dump.AllKeys(), backupv1.KeyUsername, backupv1.KeyPassword)
}

// parse returns the schedule, and the retention in seconds. Its error names the field.
func parse(spec *backupv1.BackupSpec) (schedule window.Schedule, retention int64, err error) {
	location, err := window.ParseTimeZone(spec.TimeZone)
	if err != nil {
		return schedule, 0, fmt.Errorf("spec.timeZone: %w", err)
	}
	if schedule, err = window.ParseSchedule(spec.Schedule, location); err != nil {
		return schedule, 0, fmt.Errorf("spec.schedule: %w", err)
	}
	if retention, err = dump.ParseRetention(spec.Retention); err != nil {
		return schedule, 0, fmt.Errorf("spec.retention: %w", err)
	}
	return schedule, retention, nil
}

// reconcile is one pass over a Backup.
func (r reconciler) reconcile(ctx context.Context, p *pass) error {
	schedule, retention, err := parse(&p.Object.Spec)
	if err != nil {
		summarizeInvalid(p, err)
		return nil
	}
	b, s := p.Object, &p.Object.Status
	children, template := desired(b, r.images, retention, r.namespaces.UID(b.Namespace))
	state, err := r.children.Ensure(ctx, b, &s.Children, p.Now, children...)
	record, failingPod, runsErr := recordOf(s), "", error(nil)
	if cronJob := state.Of("CronJob", cronJobName(b)); cronJob.Name != "" {
		var startErr error
		s.LastHandledRunNow, startErr = r.runs.StartRequested(
			ctx, b, cronJob, b.Annotations[backupv1.AnnotationRunNow], s.LastHandledRunNow, template)
		var next time.Duration
		record, next, runsErr = r.runs.Observe(ctx, p.Key(), record, runs.Plan{
			CronJob: cronJob, Schedule: schedule, StartingDeadline: startingDeadline, Suspended: b.Spec.Suspend,
			Changed: p.Observed.Status.ObservedGeneration != b.Generation, Verdicts: dump.Verdicts(b),
		}, p.Now)
		if next > 0 {
			p.RequeueAfter(next)
		}
		runsErr = errors.Join(startErr, runsErr)
		failingPod = r.pods.FirstFailing(ctx, p.Key(), r.runs.Unfinished(p.Key(), cronJob), p.Now, p.RequeueAfter)
	} else {
		record.Next = nil // Nothing starts runs.
	}
	summarize(p, observation{
		state: state, record: record, failingPod: failingPod, missing: r.secrets.FirstMissing(b.Namespace, dump.References(b)...),
		missingOfBucket: r.secrets.FirstMissing(b.Namespace, dump.BucketReferences(b)...),
	}, err, runsErr)
	return errors.Join(err, runsErr)
}
