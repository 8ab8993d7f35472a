// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// restorePoll is the interval at which a restore is observed.
	restorePoll = time.Second
	// maxRestoreLog bounds the log of a container that is printed, in bytes.
	maxRestoreLog = 256 * 1024
)

// databaseName is the pattern of names that a Backup accepts.
var databaseName = regexp.MustCompile(`^[a-zA-Z0-9_][-a-zA-Z0-9_]{0,62}$`)

// restoreOptions are the flags of restore.
type restoreOptions struct {
	database, file, secret, host string
	port                         uint16
	list, replace, yes           bool
}

func (c *command) restore() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore BACKUP [--database NAME] [--file DUMP]",
		Short: "Load a dump of a Backup into a database",
		Long: "Load a dump of a Backup into a database, and wait until that succeeds or fails. The database must exist and be empty, unless " +
			"--replace is given.\n\nA Job with the pods of the Backup does the work. It goes on if this command is interrupted.",
		Example: "  kubectl demoapp restore orders --list\n  kubectl demoapp restore orders --database orders_restored",
		Args:    oneBackup, ValidArgsFunction: c.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := c.backupName(cmd.Context(), args)
			if err != nil {
				return err
			}
			return c.runRestore(cmd.Context(), o, name)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.list, "list", false, "list the stored dumps, the oldest first, and restore nothing")
	flags.StringVar(&o.database, "database", "", "database into which the dump is loaded; by default that of the Backup")
	flags.StringVar(&o.file, "file", "", "name of the dump; by default the newest")
	flags.StringVar(&o.secret, "credentials-secret", "", "Secret with username and password for the restore; by default that of the Backup")
	flags.StringVar(&o.host, "host", "", "database server; by default that of the Backup")
	flags.Uint16Var(&o.port, "port", 0, "port of the database server; by default that of the Backup")
	flags.BoolVar(&o.replace, "replace", false, "replace the tables of the dump if they exist")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask before --replace")
	return cmd
}

// backupKind is the kind of the objects that restore takes.
const backupKind = "backup"

// oneBackup accepts the arguments of restore.
func oneBackup(_ *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("name one Backup as NAME or backup/NAME; kubectl demoapp get backup lists them")
	}
	return nil
}

// backupName returns the name of the Backup that the arguments name: NAME, or as of the other
// commands, KIND/NAME or KIND NAME.
func (c *command) backupName(ctx context.Context, args []string) (string, error) {
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		return args[0], nil
	}
	cluster, err := c.cluster()
	if err != nil {
		return "", err
	}
	object, err := c.object(ctx, cluster, args)
	if err == nil && !strings.EqualFold(object.Kind, backupKind) {
		err = fmt.Errorf("%s is no Backup; write backup/NAME", object)
	}
	return object.Name, err
}

// completeBackups completes the names of Backups.
func (c *command) completeBackups(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || strings.Contains(toComplete, "/") {
		return c.completeObjects(cmd, args, toComplete)
	}
	return c.completeNames(cmd, backupKind, "", toComplete)
}

func (c *command) runRestore(ctx context.Context, o restoreOptions, name string) error {
	if o.database != "" && !databaseName.MatchString(o.database) {
		return errors.New("--database: must be at most 63 letters, digits, '-' and '_', and not begin with '-'")
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	cronJob, err := kube.BatchV1().CronJobs(namespace).Get(ctx, name+"-cronjob", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q has no CronJob %q: kubectl get backup %s -n %s says why", namespace, name+"-cronjob", name, namespace)
	} else if err != nil {
		return err
	}
	job, err := restoreJob(name, cronJob, o)
	if err != nil {
		return err
	}
	if o.replace && !o.list && !o.yes && !c.confirmed(fmt.Sprintf(
		"Replace the tables of database %q? A restore that fails leaves a database of mysql or mongodb half replaced.", targetOf(job))) {
		return errors.New("nothing was restored; answer y, or use --yes")
	}
	job, err = kube.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: c.options.Program})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.streams.ErrOut, "job.batch/%s created\n", job.Name)
	return c.followRestore(ctx, kube, job)
}

// restoreJob returns a Job of the template of a Backup's CronJob, whose pods fetch and load a dump.
func restoreJob(name string, cronJob *batchv1.CronJob, o restoreOptions) (*batchv1.Job, error) {
	spec := cronJob.Spec.JobTemplate.Spec.DeepCopy()
	pod := &spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		return nil, fmt.Errorf("CronJob %q is not that of a Backup", cronJob.Name)
	}
	load, fetch := pod.InitContainers[0], pod.Containers[0]
	step := func(container *corev1.Container, step string) {
		container.Name, container.Command = step, []string{"sh", "/scripts/restore.sh", step}
	}
	step(&fetch, "fetch")
	step(&load, "load")
	setEnv(&fetch, "RESTORE_FILE", o.file)
	setEnv(&load, "RESTORE_DATABASE", o.database)
	setEnv(&load, "BACKUP_HOST", o.host)
	if o.port != 0 {
		setEnv(&load, "BACKUP_PORT", fmt.Sprint(o.port))
	}
	if o.replace {
		setEnv(&load, "RESTORE_REPLACE", "true")
	}
	for _, env := range load.Env {
		if o.secret != "" && env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
			env.ValueFrom.SecretKeyRef.Name = o.secret
		}
	}
	pod.InitContainers, pod.Containers = []corev1.Container{fetch}, []corev1.Container{load}
	if o.list {
		step(&fetch, "list")
		pod.InitContainers, pod.Containers = nil, []corev1.Container{fetch}
	}
	spec.PodFailurePolicy, spec.BackoffLimit, spec.TTLSecondsAfterFinished = nil, new(int32(0)), new(int32(7*24*60*60))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: cronJob.Namespace, Name: name + "-restore-" + rand.String(5), Labels: cronJob.Spec.JobTemplate.Labels},
		Spec:       *spec,
	}, nil
}

// setEnv sets a variable of a container, unless the value is empty.
func setEnv(container *corev1.Container, name, value string) {
	if value == "" {
		return
	}
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value = value
			return
		}
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
}

// targetOf returns the database into which a Job loads a dump.
func targetOf(job *batchv1.Job) string {
	values := map[string]string{}
	for _, env := range job.Spec.Template.Spec.Containers[0].Env {
		values[env.Name] = env.Value
	}
	return cmp.Or(values["RESTORE_DATABASE"], values["BACKUP_DATABASE"])
}

// followRestore waits until a Job ends, and prints why its pod waits, and its logs.
func (c *command) followRestore(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job) error {
	var pod *corev1.Pod
	var ended *batchv1.JobCondition
	shown := ""
	err := wait.PollUntilContextCancel(ctx, restorePoll, true, func(ctx context.Context) (bool, error) {
		live, err := kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, fmt.Errorf("job %q was deleted", job.Name)
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return false, fmt.Errorf("the Job goes on, but it cannot be observed: %w", err)
		case err != nil:
			return false, nil //nolint:nilerr // The API server may be away for a moment. The Job goes on.
		}
		ended = endOf(live)
		pods, err := kube.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name, Limit: 10})
		if err == nil && len(pods.Items) > 0 {
			pod = &pods.Items[0]
		}
		if reason := waitsFor(live, pod); reason != shown && ended == nil {
			shown = reason
			fmt.Fprintln(c.streams.ErrOut, printable(reason))
		}
		return ended != nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted; the Job goes on: kubectl logs --follow job/%s --all-containers --namespace %s", job.Name, job.Namespace)
	case err != nil:
		return err
	}
	if pod != nil {
		c.printLogs(ctx, kube, pod)
	}
	if ended.Type == batchv1.JobComplete {
		return nil
	}
	return fmt.Errorf("the restore failed: %s", printable(cmp.Or(failureOf(pod), ended.Message)))
}

// endOf returns the condition with which a Job has ended, or nil.
func endOf(job *batchv1.Job) *batchv1.JobCondition {
	for i, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// waitsFor names the current step or wait of a restore.
func waitsFor(job *batchv1.Job, pod *corev1.Pod) string {
	if pod == nil {
		return "waiting for the pod of Job " + job.Name
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "waiting: " + condition.Reason + ": " + condition.Message
		}
	}
	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Message != "":
			return "waiting: container " + container.Name + ": " + state.Waiting.Reason + ": " + state.Waiting.Message
		case state.Running != nil:
			return "running: " + container.Name
		}
	}
	return "waiting for pod " + pod.Name
}

// failureOf returns the message of the container that failed.
func failureOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if ended := container.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return cmp.Or(ended.Message, fmt.Sprintf("container %s ended with exit code %d: %s", container.Name, ended.ExitCode, ended.Reason))
		}
	}
	return pod.Status.Message
}

// printLogs prints the logs of the containers of a pod that have started.
func (c *command) printLogs(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod) {
	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if container.State.Terminated == nil {
			continue
		}
		stream, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: container.Name, LimitBytes: new(int64(maxRestoreLog)),
		}).Stream(ctx)
		if err != nil {
			fmt.Fprintf(c.streams.ErrOut, "warning: the log of container %s cannot be read: %s\n", container.Name, oneLine(err))
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(stream, maxRestoreLog))
		_ = stream.Close()
		for line := range strings.Lines(string(text)) {
			fmt.Fprintln(c.streams.Out, message.Printable(strings.TrimRight(line, "\r\n")))
		}
	}
}
