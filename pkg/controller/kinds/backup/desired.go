// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/pkg/images"
)

// startingDeadline is how late a scheduled run may start.
const startingDeadline = time.Hour

func cronJobName(b *backupv1.Backup) string { return b.Name + "-cronjob" }

// desired returns the children of a Backup, and the template of its Jobs. The retention is in
// seconds, and namespace is the UID of the namespace.
func desired(
	b *backupv1.Backup, pull images.Table, retention int64, namespace types.UID,
) ([]child.Desired, *batchv1ac.JobTemplateSpecApplyConfiguration) {
	labels, scripts, timeZone := child.Inherited(b), b.Name+"-scripts", b.Spec.TimeZone
	labels[backupv1.LabelBackup] = b.Name
	if timeZone == "" {
		timeZone = "Etc/UTC"
	}
	rule := batchv1ac.PodFailurePolicyRule
	template := batchv1ac.JobTemplateSpec().WithLabels(labels).WithSpec(batchv1ac.JobSpec().
		WithBackoffLimit(2).WithActiveDeadlineSeconds(int64(dump.Timeout(b) / time.Second)).
		WithPodFailurePolicy(batchv1ac.PodFailurePolicy().WithRules(
			rule().WithAction(batchv1.PodFailurePolicyActionFailJob).WithOnExitCodes(batchv1ac.PodFailurePolicyOnExitCodesRequirement().
				WithOperator(batchv1.PodFailurePolicyOnExitCodesOpIn).WithValues(dump.FinalCodes()...)),
			rule().WithAction(batchv1.PodFailurePolicyActionIgnore).WithOnPodConditions(batchv1ac.PodFailurePolicyOnPodConditionsPattern().
				WithType(corev1.DisruptionTarget).WithStatus(corev1.ConditionTrue)))).
		WithTemplate(dump.Template(b, labels, dump.Settings{
			Images: pull, ConfigMap: scripts, Retention: retention, Namespace: namespace,
		})))
	return []child.Desired{
		corev1ac.ConfigMap(scripts, "").WithLabels(labels).WithData(dump.Files(b)),
		batchv1ac.CronJob(cronJobName(b), "").WithLabels(labels).WithSpec(batchv1ac.CronJobSpec().
			WithSchedule(b.Spec.Schedule).WithTimeZone(timeZone).WithSuspend(b.Spec.Suspend).
			WithConcurrencyPolicy(batchv1.ForbidConcurrent).WithStartingDeadlineSeconds(int64(startingDeadline / time.Second)).
			WithSuccessfulJobsHistoryLimit(3).WithFailedJobsHistoryLimit(3).WithJobTemplate(template)),
	}, template
}
