// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/parameters"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/scripts"
	"github.com/example/demoapp-controller/pkg/images"
)

const (
	portName, port = "postgresql", 5432
	// database is the default name of the database, and of its owner.
	database = "app"
	// user is postgres in the official image, and group its group.
	user = 999
	// See scripts/lib.sh.
	volumePath, scriptsPath, credentialsPath, runPath = "/postgresql", "/scripts", "/credentials", "/var/run/postgresql"
)

// initializedMark is the file by which the primary knows that the database may have data,
// also while the volume of the primary is empty. No pod rolls when it is added.
const initializedMark = "initialized"

// desired returns the children of a PostgreSQL, except for the Backup. The StatefulSet is retained
// if stays returns true.
func desired(
	p *databasev1.PostgreSQL, pull images.Table, claim datastore.Template, mayHaveData bool, stays func(*child.Observed) bool,
) []child.Desired {
	files := maps.Clone(scripts.Files)
	files[parameters.File] = parameters.Of(p)
	if mayHaveData {
		files[initializedMark] = "true"
	}
	selector, labels := labelsOf(p.Name), childLabels(p)
	primary := maps.Clone(selector)
	primary[appsv1.StatefulSetPodNameLabel] = p.Name + "-0"
	service := func(name string, selector map[string]string) *corev1ac.ServiceApplyConfiguration {
		return workload.Service(workload.Named{Name: name, Selector: selector}, portName, port).WithLabels(labels)
	}
	headless := service(headlessName(p.Name), selector)
	headless.Spec.WithClusterIP(corev1.ClusterIPNone).WithPublishNotReadyAddresses(true)
	children := []child.Desired{
		headless, service(p.Name, primary), service(p.Name+"-read", selector),
		// Servers of an earlier operator keep its scripts until they restart.
		child.KeepWithPods(corev1ac.ConfigMap(scriptsName(p.Name), "").WithLabels(labels).WithData(files), p.Name, parameters.File, initializedMark),
		child.RetainIf(appsv1ac.StatefulSet(p.Name, "").WithLabels(labels).WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(*p.Spec.Replicas).WithServiceName(headlessName(p.Name)).WithRevisionHistoryLimit(3).
			// A standby must run while the primary waits for a failover.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(desiredPod(p, pull.Of(images.PostgreSQL(claim.Version)), selector)).
			WithVolumeClaimTemplates(claim.Desired(selector))), stays),
	}
	if *p.Spec.Replicas > 1 {
		children = append(children, workload.DisruptionBudget(workload.Named{Name: p.Name, Labels: labels, Selector: selector}))
	}
	return children
}

func labelsOf(name string) map[string]string {
	return map[string]string{databasev1.LabelPostgreSQL: name}
}

// childLabels are the labels of the children: the labels of their pods, and the labels that the
// PostgreSQL passes on.
func childLabels(p *databasev1.PostgreSQL) map[string]string {
	labels := child.Inherited(p)
	maps.Copy(labels, labelsOf(p.Name))
	return labels
}

func headlessName(name string) string    { return name + "-headless" }
func scriptsName(name string) string     { return name + "-scripts" }
func credentialsName(name string) string { return name + "-credentials" }

// desiredPod returns the pods, which meet the restricted Pod Security profile.
func desiredPod(p *databasev1.PostgreSQL, image string, labels map[string]string) *corev1ac.PodTemplateSpecApplyConfiguration {
	container := workload.Container("postgresql", image).WithCommand("sh", scriptsPath+"/start.sh").
		WithPorts(workload.Port(portName, port)).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithEnv(
			corev1ac.EnvVar().WithName("POD_NAME").WithValueFrom(corev1ac.EnvVarSource().
				WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath("metadata.name"))),
			corev1ac.EnvVar().WithName("STATEFULSET").WithValue(p.Name),
			corev1ac.EnvVar().WithName("SERVICE").WithValue(headlessName(p.Name)+"."+p.Namespace+".svc")).
		WithStartupProbe(probe("live.sh", 5, 60)).
		WithReadinessProbe(probe("ready.sh", 5, 3)).
		WithLivenessProbe(probe("live.sh", 30, 4)).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("data").WithMountPath(volumePath),
			corev1ac.VolumeMount().WithName("scripts").WithMountPath(scriptsPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("credentials").WithMountPath(credentialsPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("run").WithMountPath(runPath),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/tmp").WithSubPath("tmp"),
			corev1ac.VolumeMount().WithName("memory").WithMountPath("/dev/shm"))
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	container.Resources = workload.Resources(p.Spec.Resources)
	pod := workload.Pod(user, container).WithTerminationGracePeriodSeconds(120).
		WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().WithMaxSkew(1).
			WithTopologyKey(corev1.LabelHostname).WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(labels))).
		WithVolumes(
			corev1ac.Volume().WithName("scripts").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(scriptsName(p.Name))),
			corev1ac.Volume().WithName("credentials").WithSecret(corev1ac.SecretVolumeSource().
				WithSecretName(credentialsName(p.Name)).WithDefaultMode(0o440)),
			corev1ac.Volume().WithName("writable").WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
			// A password of the Secret is there, for libpq.
			corev1ac.Volume().WithName("run").WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory)),
			// Parallel queries share memory there.
			corev1ac.Volume().WithName("memory").WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory)))
	pod.SecurityContext.WithFSGroup(user).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	mountCertificate(p, pod)
	template := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod).
		WithAnnotations(map[string]string{databasev1.AnnotationScripts: scripts.Digest})
	if digest := parameters.RestartDigest(p); digest != "" {
		template.WithAnnotations(map[string]string{databasev1.AnnotationRestart: digest})
	}
	return template
}

func probe(script string, period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithExec(corev1ac.ExecAction().WithCommand("sh", scriptsPath+"/"+script)).
		WithPeriodSeconds(period).WithTimeoutSeconds(15).WithFailureThreshold(failures)
}
