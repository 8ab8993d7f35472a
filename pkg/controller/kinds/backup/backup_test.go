// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/runs"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/secretkeys"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// world is a controller of Backups between fake clientsets. Its time begins at midnight in UTC.
type world struct {
	*controllertest.World

	t        *testing.T
	kube     *controllertest.Kube
	metadata *metadatafake.FakeMetadataClient
	client   *versionedfake.Clientset
}

// inWorld runs a test in a world with the Backup "orders", which runs daily at 2 o'clock.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret("db", "username", "password")
		w.createSecret("bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
		w.create(nil)
		w.Take()
		test(w)
	})
}

func newWorld(t *testing.T) *world {
	scheme := runtime.NewScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	kube, client, metadata := controllertest.NewKube(), versionedfake.NewClientset(), metadatafake.NewSimpleMetadataClient(scheme)
	w := &world{World: controllertest.NewWorld(t, kube, client, metadata), t: t, kube: kube, metadata: metadata, client: client}
	w.start()
	return w
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	informers, err1 := w.Informers("backups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Backup().V1().Backups().Informer(), nil
	})
	children, err2 := child.Builtin(w, w.kube, "ConfigMap", "CronJob")
	jobs, err3 := runs.New(w, w.kube, backupv1.LabelBackup)
	keys, err4 := secretkeys.New(w, w.metadata, backup.SecretKeys()...)
	pods, err5 := child.NewPodHealth(w, w.kube, backupv1.LabelBackup)
	expect.NoError(w.t, errors.Join(err1, err2, err3, err4, err5))
	loop, err := backup.New(w.client.BackupV1(), child.NewSet(backup.Kind, children...), jobs, pods, keys, images.Table{}, kind.Deps{
		Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 1000 * time.Hour,
	})
	expect.NoError(w.t, err)
	w.Run(loop.Run)
}

// create creates the Backup.
func (w *world) create(change func(*backupv1.Backup)) {
	w.t.Helper()
	b := &backupv1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "orders"},
		Spec: backupv1.BackupSpec{
			Source: backupv1.Source{Type: "postgresql", Connection: backupv1.Connection{
				Host: "shop-db", Database: "shop", CredentialsSecret: "db",
			}},
			Destination: backupv1.Destination{Type: "s3", Bucket: "backups", CredentialsSecret: "bucket"},
			Schedule:    "0 2 * * *", Retention: "30d",
		},
	}
	if change != nil {
		change(b)
	}
	controllertest.Create(w.World, w.client.BackupV1().Backups("ns").Create, b)
}

// change changes the Backup.
func (w *world) change(change func(*backupv1.Backup)) {
	w.t.Helper()
	found := w.backup()
	change(found)
	controllertest.Update(w.World, w.client.BackupV1().Backups("ns").Update, found)
}

func (w *world) runNow(token string) {
	w.t.Helper()
	w.change(func(b *backupv1.Backup) { b.Annotations = map[string]string{backupv1.AnnotationRunNow: token} })
}

func (w *world) backup() *backupv1.Backup {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.BackupV1().Backups("ns").Get, "orders")
}

func (w *world) cronJob() *batchv1.CronJob {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.BatchV1().CronJobs("ns").Get, "orders-cronjob")
}

func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	var found *batchv1.JobList
	w.Act(func() (err error) {
		found, err = w.kube.BatchV1().Jobs("ns").List(context.Background(), metav1.ListOptions{})
		return err
	})
	return found.Items
}

// createSecret creates the metadata of a Secret with these keys.
func (w *world) createSecret(name string, keys ...string) {
	w.t.Helper()
	data := map[string]any{".": map[string]any{}}
	for _, key := range keys {
		data["f:"+key] = map[string]any{}
	}
	fields, err := json.Marshal(map[string]any{"f:data": data, "f:type": map[string]any{}})
	expect.NoError(w.t, err)
	w.Act(func() error {
		return w.metadata.Tracker().Create(secrets, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(string(fields))},
			}},
		}, "ns")
	})
}

// startJob plays the controller of CronJobs at the scheduled time.
func (w *world) startJob(name string) {
	w.t.Helper()
	scheduled := time.Now().Truncate(time.Minute).UTC()
	owner := w.cronJob()
	w.Act(func() error {
		_, err := w.kube.BatchV1().Jobs("ns").Create(context.Background(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: owner.Spec.JobTemplate.Labels,
			Annotations:     map[string]string{batchv1.CronJobScheduledTimestampAnnotation: scheduled.Format(time.RFC3339)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		}}, metav1.CreateOptions{})
		return err
	})
}

// endJob plays the controller of Jobs when a Job ends.
func (w *world) endJob(name string, condition batchv1.JobCondition) {
	w.t.Helper()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	condition.Status, condition.LastTransitionTime = corev1.ConditionTrue, now
	w.Act(func() error {
		job, err := w.kube.BatchV1().Jobs("ns").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		job.Status.Conditions = append(job.Status.Conditions, condition)
		if condition.Type == batchv1.JobComplete {
			job.Status.CompletionTime = &now
		}
		_, err = w.kube.BatchV1().Jobs("ns").UpdateStatus(context.Background(), job, metav1.UpdateOptions{})
		return err
	})
}

// createPod creates a pod of a Job, in which a container has failed.
func (w *world) createPod(job string, status corev1.PodStatus) {
	w.t.Helper()
	w.Act(func() error {
		owner, err := w.kube.BatchV1().Jobs("ns").Get(context.Background(), job, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = w.kube.CoreV1().Pods("ns").Create(context.Background(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: job + "-x", Labels: map[string]string{batchv1.JobNameLabel: job},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("Job"))},
			},
			Status: status,
		}, metav1.CreateOptions{})
		return err
	})
}

// TestRunWithoutPod: a quota refuses the pod, which only events of the Job say.
func TestRunWithoutPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startJob("orders-1")
		expect.Equal(w.t, "Ready at first", metav1.ConditionTrue, w.ready().Status)

		w.Wait(2 * time.Minute)

		expect.Equal(w.t, "reason", backupv1.ReasonRunNotStarting, w.ready().Reason)
		expect.Equal(w.t, "message", "A run does not start: Job orders-1 has no pod: a ResourceQuota or an admission policy refuses it, "+
			"which kubectl describe job orders-1 explains", w.ready().Message)
		w.Take()
		w.kube.ClearActions()
		w.Wait(time.Hour)
		expect.Equal(w.t, "writes at rest", []string(nil), w.Take())
		if looks := len(w.kube.Actions()); looks > 8 {
			w.t.Errorf("events are listed %d times in an hour", looks)
		}
	})
}

// TestRefusedRun: an event says within seconds why a Job has no pod.
func TestRefusedRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startJob("orders-1")
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "orders-1.1"}, Message: `Error creating: pods "orders-1-x" is forbidden: no`}
		controllertest.Create(w.World, w.kube.CoreV1().Events("ns").Create, event)

		w.Wait(5 * time.Second)

		expect.Equal(w.t, "message", "A run does not start: Job orders-1 has no pod: pods is forbidden: no", w.ready().Message)
		w.Wait(time.Hour)
		event.Message = `Error creating: pods "orders-1-y" is forbidden: never`
		controllertest.Update(w.World, w.kube.CoreV1().Events("ns").Update, event)
		w.Wait(15 * time.Minute)
		expect.Equal(w.t, "message for another reason", "A run does not start: Job orders-1 has no pod: pods is forbidden: never", w.ready().Message)
	})
}

// TestRunThatDoesNotStart: a Job says nothing of its pod before its deadline.
func TestRunThatDoesNotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startJob("orders-1")
		controller := true
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "orders-1-x", Labels: map[string]string{backupv1.LabelBackup: "orders"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "orders-1", Controller: &controller}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "dump", Image: "postgres:nope", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
			}}},
		}
		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, pod)

		expect.Equal(w.t, "reason", backupv1.ReasonRunNotStarting, w.ready().Reason)
		expect.Contains(w.t, "message", w.ready().Message, `A run does not start: pod orders-1-x: container "dump": ImagePullBackOff: the image "postgres:nope" cannot be pulled`)

		restore := pod.DeepCopy()
		restore.Name, restore.OwnerReferences[0].Name = "orders-0-restore", "orders-restore"
		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, restore)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		controllertest.Update(w.World, w.kube.CoreV1().Pods("ns").UpdateStatus, pod)
		expect.Equal(w.t, "Ready when it has started, and the pod of a restore has not", metav1.ConditionTrue, w.ready().Status)
	})
}

// condition returns a condition of the Backup, which is about the newest generation.
func (w *world) condition(name string) metav1.Condition {
	w.t.Helper()
	found := w.backup()
	condition := meta.FindStatusCondition(found.Status.Conditions, name)
	if condition == nil || condition.ObservedGeneration != found.Generation || found.Status.ObservedGeneration != found.Generation {
		w.t.Fatalf("status of generation %d is %+v", found.Generation, found.Status)
	}
	return *condition
}

func (w *world) ready() metav1.Condition { return w.condition("Ready") }

var (
	complete = batchv1.JobCondition{Type: batchv1.JobComplete, Reason: batchv1.JobReasonCompletionsReached}
	backoff  = batchv1.JobCondition{
		Type: batchv1.JobFailed, Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "Job has reached the specified backoff limit",
	}
)

// TestCredentialsOfPod: a condition says that runs use the credentials of the pod's account, and a refused
// run names the field to set.
func TestCredentialsOfPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret("db", "username", "password")
		w.create(func(b *backupv1.Backup) { b.Spec.Destination = backupv1.Destination{Type: "s3", Bucket: "backups"} })
		credentials := func() metav1.Condition { return w.condition(backupv1.ConditionCredentialsConfigured) }

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "status before a run", metav1.ConditionUnknown, credentials().Status)
		expect.Equal(t, "reason", backupv1.ReasonServiceAccount, credentials().Reason)
		expect.Equal(t, "message", "spec.destination.credentialsSecret is not set: runs have the credentials that the cloud gives to ServiceAccount \"default\"",
			credentials().Message)

		w.startJob("orders-1")
		w.createPod("orders-1", corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{ended("dump", 0, "")},
			ContainerStatuses:     []corev1.ContainerStatus{ended("upload", 20, "bucket backups refuses access: NoCredentialProviders")},
		})
		w.endJob("orders-1", backoff)
		expect.Equal(t, "status after a run that is refused", metav1.ConditionFalse, credentials().Status)
		expect.Contains(t, "message of Ready", w.ready().Message, "spec.destination.credentialsSecret: bucket backups refuses access: ",
			"set it to a Secret with the keys of the bucket, or let the cloud give the ServiceAccount \"default\"", "or set spec.serviceAccountName")

		w.Wait(time.Minute)
		w.startJob("orders-2")
		w.endJob("orders-2", complete)
		expect.Equal(t, "status after a run that succeeds", metav1.ConditionTrue, credentials().Status)
	})
}

// TestSourcesOfCredentials: the condition names the source of the credentials, and the missing parts.
func TestSourcesOfCredentials(t *testing.T) {
	tests := map[string]struct {
		destination backupv1.Destination
		status      metav1.ConditionStatus
		reason      string
		ready       metav1.ConditionStatus
	}{
		"Secret":              {backupv1.Destination{Type: "s3", CredentialsSecret: "bucket"}, metav1.ConditionTrue, backupv1.ReasonSecret, metav1.ConditionTrue},
		"no Secret":           {backupv1.Destination{Type: "s3", CredentialsSecret: "none"}, metav1.ConditionFalse, backupv1.ReasonSecretNotFound, metav1.ConditionFalse},
		"no key":              {backupv1.Destination{Type: "gcs", CredentialsSecret: "bucket"}, metav1.ConditionFalse, backupv1.ReasonKeyNotFound, metav1.ConditionFalse},
		"account of gcs":      {backupv1.Destination{Type: "gcs"}, metav1.ConditionUnknown, backupv1.ReasonServiceAccount, metav1.ConditionTrue},
		"azure, no account":   {backupv1.Destination{Type: "azure"}, metav1.ConditionFalse, backupv1.ReasonStorageAccountMissing, metav1.ConditionFalse},
		"azure, with account": {backupv1.Destination{Type: "azure", Endpoint: "https://a.blob.core.windows.net"}, metav1.ConditionUnknown, backupv1.ReasonServiceAccount, metav1.ConditionTrue},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.change(func(b *backupv1.Backup) { b.Spec.Destination = test.destination })

				got := w.condition(backupv1.ConditionCredentialsConfigured)
				expect.Equal(w.t, "status", test.status, got.Status)
				expect.Equal(w.t, "reason", test.reason, got.Reason)
				expect.Equal(w.t, "Ready", test.ready, w.ready().Status)
			})
		})
	}
}

// TestRequestBudget holds how many requests a Backup costs in its life.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret("db", "username", "password")
		w.createSecret("bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

		w.create(nil)
		expect.Equal(t, "requests of the creation", []string{
			"patch configmaps/orders-scripts", "patch cronjobs/orders-cronjob", "patch backups/orders status",
			"event Normal Created", "event Normal Healthy",
		}, w.Take())
		w.Wait(time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.Wait(time.Hour)
		w.startJob("orders-1")
		expect.Equal(t, "requests when a run starts", []string{"patch backups/orders status"}, w.Take())
		w.endJob("orders-1", complete)
		expect.Equal(t, "requests when a run succeeds", []string{"patch backups/orders status"}, w.Take())
		w.runNow("1")
		expect.Equal(t, "requests of a requested run", []string{"create jobs/" + w.jobs()[1].Name, "patch backups/orders status"}, w.Take())
		w.change(func(b *backupv1.Backup) { b.Spec.Retention = "7d" })
		expect.Equal(t, "requests of another retention", []string{
			"patch cronjobs/orders-cronjob", "patch backups/orders status", "event Normal Healthy",
		}, w.Take())
	})
}

func TestStatusOfRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		day := time.Now().UTC().Truncate(24 * time.Hour)
		at := func(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(day.Add(d))) }

		s := w.backup().Status
		expect.Equal(t, "reason before the first run", backupv1.ReasonNoRunYet, w.condition(backupv1.ConditionLastRunSucceeded).Reason)
		expect.Equal(t, "Ready before the first run", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "times before the first run", []*metav1.Time{nil, nil, at(2 * time.Hour)},
			[]*metav1.Time{s.LastScheduleTime, s.LastSuccessfulTime, s.NextScheduleTime})

		w.Wait(2 * time.Hour)
		w.startJob("orders-1")
		s = w.backup().Status
		expect.Equal(t, "times of a run", []*metav1.Time{at(2 * time.Hour), nil, at(26 * time.Hour)},
			[]*metav1.Time{s.LastScheduleTime, s.LastSuccessfulTime, s.NextScheduleTime})

		w.endJob("orders-1", complete)
		s = w.backup().Status
		if s.LastSuccessfulTime == nil || s.LastSuccessfulTime.Before(at(2*time.Hour)) {
			t.Errorf("time of the success is %v", s.LastSuccessfulTime)
		}
		expect.Equal(t, "Scheduled", metav1.ConditionTrue, w.condition(backupv1.ConditionScheduled).Status)
		expect.Equal(t, "LastRunSucceeded", backupv1.ReasonRunSucceeded, w.condition(backupv1.ConditionLastRunSucceeded).Reason)
		expect.Equal(t, "failure", (*backupv1.Failure)(nil), s.LastFailure)
	})
}

// ended returns the status of a container that ended.
func ended(name string, code int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, Reason: "Error"},
	}}
}

func TestFailedRun(t *testing.T) {
	dumpFails := func(code int32, message string) corev1.PodStatus {
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended("dump", code, message)}}
	}
	uploadFails := func(code int32, message string) corev1.PodStatus {
		return corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{ended("dump", 0, "")},
			ContainerStatuses:     []corev1.ContainerStatus{ended("upload", code, message)},
		}
	}
	deadline := batchv1.JobCondition{Type: batchv1.JobFailed, Reason: batchv1.JobReasonDeadlineExceeded, Message: "Job was active longer than specified deadline"}
	tests := map[string]struct {
		pod             corev1.PodStatus
		job             batchv1.JobCondition
		reason, message string
	}{
		"the database refuses the login": {
			dumpFails(10, "the database refuses the login: FATAL: no"), backoff, backupv1.ReasonSourceRefused,
			`spec.source.connection: the database refuses the login: FATAL: no: correct host or database, or username or password in Secret "db"`,
		},
		"the dump fails": {
			dumpFails(11, "pg_dump failed: x"), backoff, backupv1.ReasonDumpFailed,
			"spec.source: pg_dump failed: x: look at the log: kubectl logs job/orders-1 --container dump",
		},
		"the dump is killed": {
			dumpFails(137, ""), backoff, backupv1.ReasonDumpFailed, "spec.source: container dump ended with exit code 137: Error",
		},
		"the bucket refuses": {
			uploadFails(20, "bucket backups refuses access: AccessDenied"), backoff, backupv1.ReasonDestinationRefused,
			`spec.destination.credentialsSecret: bucket backups refuses access: AccessDenied: correct the keys in Secret "bucket"`,
		},
		"the bucket does not exist": {
			uploadFails(21, "bucket backups does not exist: NoSuchBucket"), backoff, backupv1.ReasonBucketNotFound, "spec.destination.bucket: bucket",
		},
		"the upload fails": {
			uploadFails(22, "the upload failed: timeout\nsecond line"), backoff, backupv1.ReasonUploadFailed,
			"spec.destination: the upload failed: timeout second line: look at the log",
		},
		"old dumps stay": {
			uploadFails(24, "x is stored, but y"), backoff, backupv1.ReasonPruneFailed, "spec.destination.credentialsSecret: x is stored, but y",
		},
		"the dumps belong to another Backup": {
			uploadFails(25, "the dumps belong to another Backup"), backoff, backupv1.ReasonDestinationInUse,
			"spec.destination.prefix: the dumps belong to another Backup: choose another prefix, or set " +
				"spec.destination.takeOverFrom to the UID of the other Backup if it is no longer in use",
		},
		"an exit code of another container": {
			uploadFails(10, "x"), backoff, backupv1.ReasonUploadFailed, "spec.destination: x: look at the log",
		},
		"a pod is evicted": {
			corev1.PodStatus{Message: "Usage of EmptyDir volume exceeds the limit"},
			backoff, backupv1.ReasonRunFailed,
			"Usage of EmptyDir volume exceeds the limit: look at the events: kubectl describe job orders-1",
		},
		"the image is refused": {
			corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "dump", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"},
			}}}},
			deadline, backupv1.ReasonDeadlineExceeded, "ImagePullBackOff: Back-off pulling image: look at the events",
		},
		"no pod is left": {corev1.PodStatus{}, deadline, backupv1.ReasonDeadlineExceeded, "Job was active longer than specified deadline"},
		"a long message": {dumpFails(11, strings.Repeat("ü", 5000)), backoff, backupv1.ReasonDumpFailed, "spec.source: ü"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Wait(2 * time.Hour)
				w.startJob("orders-1")
				w.createPod("orders-1", test.pod)
				w.Take()

				w.endJob("orders-1", test.job)

				expect.Equal(t, "requests", []string{"patch backups/orders status", "event Warning " + test.reason}, w.Take())
				ready, last, failure := w.ready(), w.condition(backupv1.ConditionLastRunSucceeded), w.backup().Status.LastFailure
				expect.Equal(t, "reasons", []string{test.reason, test.reason, test.reason}, []string{ready.Reason, last.Reason, failure.Reason})
				expect.Equal(t, "Stalled", metav1.ConditionTrue, w.condition(apimeta.ConditionStalled).Status)
				if !strings.HasPrefix(ready.Message, test.message) || ready.Message != failure.Message || len(ready.Message) > 1024 {
					t.Errorf("message is %q, want it to begin with %q", ready.Message, test.message)
				}
				expect.Equal(t, "Job", "orders-1", failure.Job)
				w.Stop()
				w.start()
				expect.Equal(t, "requests of a restart", []string(nil), w.Take())
			})
		})
	}
}

func TestSuccessAfterFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(2 * time.Hour)
		w.startJob("orders-1")
		w.endJob("orders-1", backoff)
		expect.Equal(t, "reason after the failure", backupv1.ReasonRunFailed, w.ready().Reason)
		w.Wait(time.Minute)
		w.runNow("again")
		expect.Equal(t, "reason while the next run runs", backupv1.ReasonRunFailed, w.ready().Reason)

		w.endJob(w.jobs()[1].Name, complete)

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "LastRunSucceeded", metav1.ConditionTrue, w.condition(backupv1.ConditionLastRunSucceeded).Status)
		if failure := w.backup().Status.LastFailure; failure == nil || failure.Job != "orders-1" {
			t.Errorf("the failure is forgotten: %+v", failure)
		}
	})
}

// TestTimesInTheFuture: a wrong time of one run does not hide later runs.
func TestTimesInTheFuture(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(2 * time.Hour)
		w.startJob("orders-1")
		w.endJob("orders-1", complete)
		w.Act(func() error {
			job, err := w.kube.BatchV1().Jobs("ns").Get(t.Context(), "orders-1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			future := time.Now().Add(1000 * time.Hour)
			job.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute))
			job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = future.UTC().Format(time.RFC3339)
			job.Status.CompletionTime = ptr.To(metav1.NewTime(future))
			_, err = w.kube.BatchV1().Jobs("ns").Update(t.Context(), job, metav1.UpdateOptions{})
			return err
		})
		w.Wait(time.Hour)

		w.startJob("orders-2")
		w.endJob("orders-2", backoff)

		s := w.backup().Status
		expect.Equal(t, "reason", backupv1.ReasonRunFailed, w.ready().Reason)
		for name, at := range map[string]*metav1.Time{"schedule": s.LastScheduleTime, "success": s.LastSuccessfulTime} {
			if at == nil || at.After(time.Now()) {
				t.Errorf("time of the last %s is %v, want one in the past", name, at)
			}
		}
	})
}

func TestMissedRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(3*time.Hour - time.Minute)
		expect.Equal(t, "requests before the deadline", []string(nil), w.Take())

		w.Wait(2 * time.Minute)

		expect.Equal(t, "requests after the deadline",
			[]string{"get cronjobs/orders-cronjob", "patch backups/orders status", "event Warning RunMissed"}, w.Take())
		expect.Equal(t, "reason", backupv1.ReasonRunMissed, w.ready().Reason)
		s := w.backup().Status
		if want := "spec.schedule: no run started at 2000-01-01T02:00:00Z, or within 1h0m0s after it"; !strings.HasPrefix(w.ready().Message, want) {
			t.Errorf("message is %q, want %q", w.ready().Message, want)
		}
		if advice := "kubectl get jobs --selector backup.example.com/backup=orders"; !strings.HasSuffix(w.ready().Message, advice) {
			t.Errorf("message is %q, want %q at its end", w.ready().Message, advice)
		}
		expect.Equal(t, "next run", time.Date(2000, 1, 2, 2, 0, 0, 0, time.UTC), s.NextScheduleTime.UTC())
		w.Wait(22 * time.Hour)
		expect.Equal(t, "requests afterwards", []string(nil), w.Take())
	})
}

// TestDeletedJobIsNotMissedRun: the status of the CronJob shows that the run was started.
func TestDeletedJobIsNotMissedRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Stop()
		w.Wait(2 * time.Hour)
		found := w.cronJob()
		found.Status.LastScheduleTime = ptr.To(metav1.NewTime(time.Now().Truncate(time.Minute)))
		controllertest.Update(w.World, w.kube.BatchV1().CronJobs("ns").UpdateStatus, found)
		w.start()

		w.Wait(2 * time.Hour)

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "last scheduled run", found.Status.LastScheduleTime.UTC(), w.backup().Status.LastScheduleTime.UTC())
	})
}

func TestChangedScheduleMissesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(2*time.Hour + 30*time.Minute)

		w.change(func(b *backupv1.Backup) { b.Spec.Schedule, b.Spec.TimeZone = "0 5 * * *", "Europe/Berlin" })

		w.Wait(time.Hour)
		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "next run", time.Date(2000, 1, 1, 4, 0, 0, 0, time.UTC), w.backup().Status.NextScheduleTime.UTC())
	})
}

// TestRunOfJobs: labels of the operator win, because it finds Jobs and pods by them.
func TestRunOfJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		expect.Equal(t, "default deadline", int64(6*60*60), *w.cronJob().Spec.JobTemplate.Spec.ActiveDeadlineSeconds)
		w.change(func(b *backupv1.Backup) {
			b.Spec.Run = &backupv1.Run{
				Timeout: &metav1.Duration{Duration: 12 * time.Hour}, PodAnnotations: map[string]backupv1.AnnotationValue{"sidecar.istio.io/inject": "false"},
				PodLabels: map[string]backupv1.LabelValue{"team": "shop", backupv1.LabelBackup: "other"},
			}
		})

		job := w.cronJob().Spec.JobTemplate.Spec
		expect.Equal(t, "deadline", int64(12*60*60), *job.ActiveDeadlineSeconds)
		expect.Equal(t, "labels", map[string]string{"team": "shop", backupv1.LabelBackup: "orders"}, job.Template.Labels)
		expect.Equal(t, "annotations", map[string]string{"sidecar.istio.io/inject": "false"}, job.Template.Annotations)
	})
}

func TestSuspend(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(b *backupv1.Backup) { b.Spec.Suspend = true })

		expect.Equal(t, "CronJob", true, *w.cronJob().Spec.Suspend)
		expect.Equal(t, "Scheduled", backupv1.ReasonSuspended, w.condition(backupv1.ConditionScheduled).Reason)
		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "next run", (*metav1.Time)(nil), w.backup().Status.NextScheduleTime)
		w.Take()
		w.Wait(100 * time.Hour)
		expect.Equal(t, "requests while suspended", []string(nil), w.Take())
		w.runNow("now")
		expect.Equal(t, "Jobs by request", 1, len(w.jobs()))
	})
}

func TestRunNow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runNow("1")
		jobs := w.jobs()
		if len(jobs) != 1 {
			t.Fatalf("%d Jobs, want 1", len(jobs))
		}
		expect.Equal(t, "spec", w.cronJob().Spec.JobTemplate.Spec, jobs[0].Spec)
		if !metav1.IsControlledBy(&jobs[0], w.cronJob()) || jobs[0].Labels[backupv1.LabelBackup] != "orders" {
			t.Errorf("metadata of the Job is %+v", jobs[0].ObjectMeta)
		}
		expect.Equal(t, "handled value", "1", w.backup().Status.LastHandledRunNow)

		w.runNow("1")
		w.change(func(b *backupv1.Backup) { b.Annotations = nil })
		w.runNow("1")
		expect.Equal(t, "Jobs after the same value", 1, len(w.jobs()))
		w.runNow(strings.Repeat("2", 10000))
		expect.Equal(t, "Jobs after another value", 2, len(w.jobs()))
		if handled := w.backup().Status.LastHandledRunNow; !strings.HasPrefix(handled, "sha256:") || len(handled) > 253 {
			t.Errorf("handled value is %q", handled)
		}
	})
}

// TestRunNowIsNotRepeated: the Job exists, but the status was not written.
func TestRunNowIsNotRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if strings.HasPrefix(request, "patch backups") {
				return errors.New("away")
			}
			return nil
		})
		w.runNow("1")
		w.Wait(time.Minute)
		w.Refuse(nil)
		w.Stop()
		w.start()
		w.Wait(10 * time.Minute)

		expect.Equal(t, "Jobs", 1, len(w.jobs()))
		expect.Equal(t, "handled value", "1", w.backup().Status.LastHandledRunNow)
	})
}

// TestJobsOfOtherOwners: only Jobs of the Backup's own CronJob count.
func TestJobsOfOtherOwners(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Create(w.World, w.kube.BatchV1().Jobs("ns").Create, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{backupv1.LabelBackup: "orders"}},
		})

		w.endJob("theirs", backoff)

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "requests", []string(nil), w.Take())
	})
}

func TestInvalidSchedule(t *testing.T) {
	tests := map[string]struct {
		change  func(*backupv1.BackupSpec)
		message string
	}{
		"no cron":          {func(s *backupv1.BackupSpec) { s.Schedule = "daily" }, `spec.schedule: schedule "daily" cannot be understood`},
		"six fields":       {func(s *backupv1.BackupSpec) { s.Schedule = "0 0 2 * * *" }, "spec.schedule: "},
		"no such date":     {func(s *backupv1.BackupSpec) { s.Schedule = "0 0 30 2 *" }, "spec.schedule: "},
		"a time zone":      {func(s *backupv1.BackupSpec) { s.Schedule = "TZ=UTC 0 2 * * *" }, "spec.schedule: "},
		"an interval":      {func(s *backupv1.BackupSpec) { s.Schedule = "@every 1h" }, "spec.schedule: "},
		"an unknown zone":  {func(s *backupv1.BackupSpec) { s.TimeZone = "Mars/Olympus" }, "spec.timeZone: "},
		"the zone Local":   {func(s *backupv1.BackupSpec) { s.TimeZone = "Local" }, "spec.timeZone: "},
		"a bad retention":  {func(s *backupv1.BackupSpec) { s.Retention = "30x" }, "spec.retention: "},
		"a zero retention": {func(s *backupv1.BackupSpec) { s.Retention = "0d" }, "spec.retention: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)

				w.create(func(b *backupv1.Backup) { test.change(&b.Spec) })

				expect.Equal(t, "requests", []string{"patch backups/orders status", "event Warning InvalidSchedule"}, w.Take())
				expect.Equal(t, "Stalled", metav1.ConditionTrue, w.condition(apimeta.ConditionStalled).Status)
				if message := w.ready().Message; !strings.HasPrefix(message, test.message) {
					t.Errorf("message is %q, want it to begin with %q", message, test.message)
				}
			})
		})
	}
}

func TestInvalidScheduleKeepsChildren(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(b *backupv1.Backup) { b.Spec.Schedule = "never" })

		expect.Equal(t, "requests", []string{"patch backups/orders status", "event Warning InvalidSchedule"}, w.Take())
		expect.Equal(t, "schedule of the CronJob", "0 2 * * *", w.cronJob().Spec.Schedule)
	})
}

func TestMissingSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret("bucket", "AWS_ACCESS_KEY_ID")
		w.create(nil)
		expect.Equal(t, "reason without the Secret", backupv1.ReasonSecretNotFound, w.ready().Reason)
		expect.Equal(t, "message", `spec.source.connection.credentialsSecret: Secret "db" does not exist: create it with username, password`, w.ready().Message)

		w.createSecret("db", "username", "password", "more")
		expect.Equal(t, "reason without the key", backupv1.ReasonKeyNotFound, w.ready().Reason)
		expect.Equal(t, "message", `spec.destination.credentialsSecret: Secret "bucket" lacks AWS_SECRET_ACCESS_KEY: add what is missing`, w.ready().Message)

		w.Act(func() error { return w.metadata.Tracker().Delete(secrets, "ns", "bucket") })
		w.createSecret("bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		for _, request := range w.Take() {
			if strings.Contains(request, "secrets") {
				t.Errorf("the operator sent %q, want no Secret to be read", request)
			}
		}
	})
}

// TestUnknownKeys: a client may remove the managed fields, which have the names of the keys.
func TestUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"db", "bucket"} {
			w.Act(func() error {
				return w.metadata.Tracker().Create(secrets, &metav1.PartialObjectMetadata{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
				}, "ns")
			})
		}

		w.create(nil)

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		found := w.cronJob()
		found.Spec.Schedule = "* * * * *"
		w.Act(func() error {
			_, err := w.kube.BatchV1().CronJobs("ns").Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
			return err
		})
		drift := []string{"patch cronjobs/orders-cronjob", "patch backups/orders status", "event Normal DriftCorrected"}
		expect.Equal(t, "requests after a change", drift, w.Take())
		expect.Equal(t, "schedule", "0 2 * * *", w.cronJob().Spec.Schedule)
		w.Wait(time.Minute)

		controllertest.Delete(w.World, w.kube.BatchV1().CronJobs("ns").Delete, "orders-cronjob")
		expect.Equal(t, "requests after the deletion", drift, w.Take())
	})
}

func TestConflictingObjectStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		controllertest.Create(w.World, w.kube.BatchV1().CronJobs("ns").Create, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "orders-cronjob"}})

		w.create(func(b *backupv1.Backup) { b.Annotations = map[string]string{backupv1.AnnotationRunNow: "1"} })

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready().Reason)
		expect.Equal(t, "Scheduled", backupv1.ReasonNotScheduled, w.condition(backupv1.ConditionScheduled).Reason)
		expect.Equal(t, "Jobs", 0, len(w.jobs()))
	})
}

// TestLostCronJobStartsNoRuns: the CronJob is deleted, and cannot be written again at first.
func TestLostCronJobStartsNoRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		var down atomic.Bool
		down.Store(true)
		w.Refuse(func(request string) error {
			if down.Load() && request == "patch cronjobs/orders-cronjob" {
				return errors.New("the server is down")
			}
			return nil
		})

		controllertest.Delete(w.World, w.kube.BatchV1().CronJobs("ns").Delete, "orders-cronjob")

		expect.Equal(t, "Scheduled", backupv1.ReasonNotScheduled, w.condition(backupv1.ConditionScheduled).Reason)
		expect.Equal(t, "next run", (*metav1.Time)(nil), w.backup().Status.NextScheduleTime)

		down.Store(false)
		w.Wait(time.Minute)

		expect.Equal(t, "Scheduled afterwards", backupv1.ReasonScheduled, w.condition(backupv1.ConditionScheduled).Reason)
		expect.Equal(t, "next run afterwards", time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC), w.backup().Status.NextScheduleTime.UTC())
	})
}

func TestUnreadablePodsAreReadAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(2 * time.Hour)
		w.startJob("orders-1")
		w.kube.PrependReactor("list", "pods", failTimes(1))
		w.Take()

		w.endJob("orders-1", backoff)

		expect.Equal(t, "reason", apimeta.ReasonObserveFailed, w.ready().Reason)
		w.Wait(time.Minute)
		expect.Equal(t, "reason after the retry", backupv1.ReasonRunFailed, w.ready().Reason)
	})
}

// failTimes fails the first requests.
func failTimes(n int32) clienttesting.ReactionFunc {
	var left atomic.Int32
	left.Store(n)
	return func(clienttesting.Action) (bool, runtime.Object, error) {
		if left.Add(-1) >= 0 {
			return true, nil, errors.New("away")
		}
		return false, nil, nil
	}
}
