// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/images"
)

const (
	// Port is the port of the server.
	Port = 3306
	// Database is the database that the server creates.
	Database = "app"
	// username is the owner of the database.
	username = "app"
)

// Keys of the Secret with the credentials.
const (
	KeyUsername     = "username"
	KeyPassword     = "password"
	KeyDatabase     = "database"
	KeyRootPassword = "root-password"
)

// user is the user of the image. portName is the name of the container port.
const (
	user     = 999
	portName = "mysql"
)

// Server is a MySQL server.
type Server struct {
	// Named names the StatefulSet, the Service and, with suffixes, the other children.
	workload.Named
	// Version is a tag of the image mysql, such as 8.4.
	Version string
	// Images say where the image is pulled from.
	Images images.Table
	// Storage is the size of the volume, such as 10Gi. It cannot be changed later, because
	// the API server refuses another template of the volume.
	Storage string
	// Resources are the compute resources of the server. Optional.
	Resources *corev1ac.ResourceRequirementsApplyConfiguration
}

// CredentialsSecret is the name of the Secret with the credentials.
func (s Server) CredentialsSecret() string { return s.Name + "-credentials" }

// Children returns the children of the server, which reads its Secret. The first start on an empty
// volume creates the users of the database, so a later change of the Secret does not change their
// passwords. See [Credentials].
func (s Server) Children() []child.Desired {
	headless := workload.Service(s.Named, portName, Port)
	headless.WithName(s.Name + "-headless").Spec.WithClusterIP(corev1.ClusterIPNone)
	set := appsv1ac.StatefulSet(s.Name, "").WithLabels(s.PodLabels()).WithSpec(appsv1ac.StatefulSetSpec().
		WithServiceName(*headless.Name).WithReplicas(1).WithRevisionHistoryLimit(3).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(s.Selector)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(s.PodLabels()).WithSpec(s.pod())).
		WithVolumeClaimTemplates(corev1ac.PersistentVolumeClaim("data", "").WithLabels(s.PodLabels()).WithSpec(
			corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithResources(
				corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s.Storage)})))))
	return []child.Desired{headless, workload.Service(s.Named, portName, Port), set}
}

// pod returns the pod. The image serves its socket from /var/run/mysqld, and initializes an empty
// data directory as the user of the pod. The server accepts TCP connections only after the
// initialization.
func (s Server) pod() *corev1ac.PodSpecApplyConfiguration {
	secret := s.CredentialsSecret()
	container := workload.Container("mysql", s.Images.Of(images.MySQL(s.Version))).WithPorts(workload.Port(portName, Port)).
		WithEnv(
			workload.FromSecret("MYSQL_USER", secret, KeyUsername), workload.FromSecret("MYSQL_PASSWORD", secret, KeyPassword),
			workload.FromSecret("MYSQL_DATABASE", secret, KeyDatabase), workload.FromSecret("MYSQL_ROOT_PASSWORD", secret, KeyRootPassword),
			workload.Value("MYSQL_ROOT_HOST", "localhost")).
		WithReadinessProbe(workload.TCPProbe(portName)).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("data").WithMountPath("/var/lib/mysql").WithSubPath("mysql"),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/var/run/mysqld").WithSubPath("run"),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/tmp").WithSubPath("tmp"))
	container.SecurityContext.WithReadOnlyRootFilesystem(true)
	if s.Resources != nil {
		container.WithResources(s.Resources)
	}
	pod := workload.Pod(user, container).WithVolumes(corev1ac.Volume().WithName("writable").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	pod.SecurityContext.WithFSGroup(user).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	return pod
}
