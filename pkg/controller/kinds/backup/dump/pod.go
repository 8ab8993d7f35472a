// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"cmp"
	_ "embed" // For the scripts.
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/pkg/images"
)

const (
	// dump and upload are the containers of a run.
	dump, upload = "dump", "upload"
	// user exists in none of the images. The programs need no entry in /etc/passwd.
	user = 65532
	// maxRetention bounds a retention, in seconds. Not all programs know dates before the year
	// 1970.
	maxRetention = 50 * 365 * 24 * 60 * 60
	// caFile is the key of the ConfigMap that holds spec.destination.caBundle.
	caFile = "ca.crt"
	// defaultSize bounds a dump.
	defaultSize = "50Gi"
)

// databases are the images with the programs of the databases, and the default ports.
var databases = map[string]struct {
	image string
	port  int32
}{
	// pg_dump must not be older than the server.
	backupv1.SourcePostgreSQL: {images.PostgreSQLDump, 5432},
	backupv1.SourceMySQL:      {images.MySQLDump, 3306},
	backupv1.SourceMongoDB:    {images.MongoDBDump, 27017},
}

// The scripts. All values of a Backup reach them by environment.
var (
	//go:embed scripts/lib.sh
	libScript string
	//go:embed scripts/dump.sh
	dumpScript string
	//go:embed scripts/upload.sh
	uploadScript string
	//go:embed scripts/restore.sh
	restoreScript string
)

// Files returns the data of the ConfigMap of a Backup: the scripts, and the certificates of the
// storage server.
func Files(b *backupv1.Backup) map[string]string {
	files := Scripts()
	if bundle := b.Spec.Destination.CABundle; bundle != "" {
		files[caFile] = bundle
	}
	return files
}

// Scripts returns the scripts by name.
func Scripts() map[string]string {
	return map[string]string{"lib.sh": libScript, "dump.sh": dumpScript, "upload.sh": uploadScript, "restore.sh": restoreScript}
}

// ParseRetention returns the seconds of a retention such as 12h, 30d or 8w.
func ParseRetention(text string) (int64, error) {
	units := map[byte]int64{'h': 60 * 60, 'd': 24 * 60 * 60, 'w': 7 * 24 * 60 * 60}
	if last := len(text) - 1; last > 0 && units[text[last]] > 0 {
		if number, err := strconv.ParseUint(text[:last], 10, 31); err == nil && number > 0 {
			return min(int64(number)*units[text[last]], maxRetention), nil
		}
	}
	return 0, fmt.Errorf("%q is no number of hours, days or weeks, such as 12h, 30d or 8w", text)
}

// Settings are the needs of a Backup's pods that its spec does not contain.
type Settings struct {
	// Images says where images are pulled from.
	Images images.Table
	// ConfigMap has the files.
	ConfigMap string
	// Retention is in seconds.
	Retention int64
	// Namespace is the UID of the Backup's namespace; empty if it is not known.
	Namespace types.UID
}

// defaultTimeout is how long a run may take.
const defaultTimeout = 6 * time.Hour

// Timeout returns how long a run of a Backup may take.
func Timeout(b *backupv1.Backup) time.Duration {
	if run := b.Spec.Run; run != nil && run.Timeout != nil {
		return run.Timeout.Duration
	}
	return defaultTimeout
}

// Template returns the template of the pods of a Backup's runs. labels win over the labels of the
// spec, because pods are found by them.
func Template(b *backupv1.Backup, labels map[string]string, s Settings) *corev1ac.PodTemplateSpecApplyConfiguration {
	template := corev1ac.PodTemplateSpec().WithSpec(Pod(b, s))
	if run := b.Spec.Run; run != nil {
		template.WithLabels(texts(run.PodLabels)).WithAnnotations(texts(run.PodAnnotations))
	}
	return template.WithLabels(labels)
}

// Pod returns the pods of a Backup's runs: an init container dumps, and the main container uploads.
func Pod(b *backupv1.Backup, s Settings) *corev1ac.PodSpecApplyConfiguration {
	source, destination := b.Spec.Source, b.Spec.Destination
	from := databases[source.Type]
	dumper := container(b, dump, cmp.Or(source.Image, s.Images.Of(from.image))).WithEnv(
		workload.Value("BACKUP_HOST", source.Connection.Host),
		workload.Value("BACKUP_PORT", strconv.Itoa(int(cmp.Or(source.Connection.Port, from.port)))),
		workload.Value("BACKUP_DATABASE", source.Connection.Database),
		workload.FromSecret("BACKUP_USERNAME", source.Connection.CredentialsSecret, backupv1.KeyUsername),
		workload.FromSecret("BACKUP_PASSWORD", source.Connection.CredentialsSecret, backupv1.KeyPassword))
	uploader := container(b, upload, s.Images.Of(images.Rclone)).WithEnv(
		workload.Value("BACKUP_BUCKET", destination.Bucket), workload.Value("BACKUP_PREFIX", destination.Prefix),
		workload.Value("BACKUP_UID", string(b.UID)), workload.Value("BACKUP_NAMESPACE_UID", string(s.Namespace)),
		workload.Value("BACKUP_TAKE_OVER_FROM", destination.TakeOverFrom),
		workload.Value("BACKUP_RETENTION_SECONDS", strconv.FormatInt(s.Retention, 10))).WithEnv(environment(destination)...)
	pod := workload.Pod(user, uploader).WithInitContainers(dumper).WithRestartPolicy(corev1.RestartPolicyNever)
	if b.Spec.ServiceAccountName != "" {
		pod.WithServiceAccountName(b.Spec.ServiceAccountName)
	}
	return pod.WithVolumes(
		corev1ac.Volume().WithName("scripts").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(s.ConfigMap)),
		volume(b.Spec.Volume, pod),
		corev1ac.Volume().WithName("secrets").WithEmptyDir(corev1ac.EmptyDirVolumeSource().
			WithMedium(corev1.StorageMediumMemory).WithSizeLimit(resource.MustParse("1Mi"))))
}

// volume returns the volume of the dump, and lets the pod write to it.
func volume(given *backupv1.Volume, pod *corev1ac.PodSpecApplyConfiguration) *corev1ac.VolumeApplyConfiguration {
	if given == nil {
		given = &backupv1.Volume{}
	}
	// Admission refuses an invalid size. An object from before that rule gets the default.
	size, err := resource.ParseQuantity(cmp.Or(given.Size, defaultSize))
	if err != nil {
		size = resource.MustParse(defaultSize)
	}
	desired := corev1ac.Volume().WithName("backup")
	if given.StorageClassName == "" {
		return desired.WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(size))
	}
	pod.SecurityContext.WithFSGroup(user)
	return desired.WithEphemeral(corev1ac.EphemeralVolumeSource().WithVolumeClaimTemplate(corev1ac.PersistentVolumeClaimTemplate().
		WithSpec(corev1ac.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithStorageClassName(given.StorageClassName).
			WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size})))))
}

// container returns a container that runs the script of its name.
func container(b *backupv1.Backup, name, image string) *corev1ac.ContainerApplyConfiguration {
	c := workload.Container(name, image).WithCommand("sh", "/scripts/"+name+".sh").
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithResources(workload.Requirements(workload.Quantities("50m", "128Mi"), workload.Quantities("1", "1Gi"))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("scripts").WithMountPath("/scripts").WithReadOnly(true),
			corev1ac.VolumeMount().WithName("backup").WithMountPath("/backup"),
			corev1ac.VolumeMount().WithName("secrets").WithMountPath("/secrets")).
		WithEnv(workload.Value("BACKUP_TYPE", b.Spec.Source.Type), workload.Value("BACKUP_NAME", b.Namespace+"."+b.Name),
			workload.Value("BACKUP_DIR", "/backup"), workload.Value("BACKUP_SECRETS_DIR", "/secrets"),
			workload.Value("HOME", "/backup"), workload.Value("TMPDIR", "/backup"))
	c.SecurityContext.WithReadOnlyRootFilesystem(true)
	return c
}

// texts returns the values of labels or annotations as texts.
func texts[V ~string](values map[string]V) map[string]string {
	converted := make(map[string]string, len(values))
	for key, value := range values {
		converted[key] = string(value)
	}
	return converted
}
