// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/cleanup"
	blocked "github.com/example/demoapp-controller/pkg/controller/kinds/webapp/images"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/registries"
)

// systemNamespaces are the namespaces of Kubernetes itself. Their objects are trusted by the whole
// cluster, so the operator, which may do more than most users, changes nothing there by default.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Options are the values of the flags.
type Options struct {
	// Options are the flags of package operator.
	operator.Options
	// Workers is the number of DemoApps that are reconciled at the same time.
	Workers int
	// ResyncPeriod is the time between two periodic passes over a DemoApp.
	ResyncPeriod time.Duration
	// AuditNamespace is the namespace of the audit records of deleted DemoApps.
	AuditNamespace string
	// AuditRetention is the age at which audit records are removed. If it is 0, records do not
	// expire.
	AuditRetention time.Duration
	// AllowedSystemNamespaces are the system namespaces whose custom resources are reconciled.
	AllowedSystemNamespaces []string
	// LicenseURL is the URL template of the license server, which is asked before an install or
	// upgrade. If it is empty, no license is required. It may hold a secret.
	LicenseURL string
	// LicenseRetry is the time after which the license server is asked again, unless it granted the
	// license.
	LicenseRetry time.Duration
	// MaxConcurrentRollouts is the number of objects of a kind that get a change of
	// the whole kind at a time; 0 means no limit.
	MaxConcurrentRollouts int
	// RolloutFailureThreshold is the number of failed objects that halts such a rollout in their
	// namespace, and of namespaces with failed objects that halts it everywhere; 0 means no limit.
	RolloutFailureThreshold int
	// SharedDependencies are the namespaces whose objects the waitFor of resources in other namespaces
	// may name.
	SharedDependencies []string
	// AllowedRegistries are the allowed registries of the images of DemoApps. If it is empty, all
	// images are allowed.
	AllowedRegistries []string
	// WebAppCleanupURL is the URL template of the server that cleans up after deleted WebApps. If
	// it is empty, there is nothing to clean up. It may hold a secret.
	WebAppCleanupURL string
	// BlockedImages are references of images that WebApps do not roll out.
	BlockedImages []string
	// WatchesFile is the path of watches.yaml, which names further kinds and their charts. If it is
	// empty, only the built-in kinds run.
	WatchesFile string
	// ChartCacheDir is the directory for charts that are pulled from oci:// and https://
	// references.
	ChartCacheDir string
	// RegistryConfig is a Docker configuration file with the credentials of chart registries.
	RegistryConfig string
	// PlatformHosts maps hosts to the namespaces whose EcommercePlatforms alone may serve them and
	// their subdomains.
	PlatformHosts map[string]string
	// ClusterDomain is the DNS domain of the cluster, for URLs and endpoints in the status.
	ClusterDomain string
	// ImageRegistry is a mirror of Docker Hub for the images that the operator names. If it is empty,
	// they are pulled from Docker Hub.
	ImageRegistry string
	// Images are the images to use in place of those that the operator names.
	Images map[string]string
	// DefaultBackupDestination are fields of spec.destination of Backups, for databases that name no
	// destination. If it is empty, nothing of these is backed up.
	DefaultBackupDestination map[string]string
	// StatusManifest writes the manifest of each release to the status of the custom resource.
	StatusManifest bool
	// Admission are the flags of the webhook of WebApps.
	Admission AdmissionOptions

	// images is the table of ImageRegistry and Images. Validate sets it.
	images images.Table
	// destination is DefaultBackupDestination. Validate sets it.
	destination datastore.DefaultDestination
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Options:        *operator.NewOptions(programName, "", defaultNamespace),
		Workers:        10,
		ResyncPeriod:   10 * time.Minute,
		AuditNamespace: "demoapp-audit",
		AuditRetention: 90 * 24 * time.Hour,
		LicenseRetry:   2 * time.Minute,
		ClusterDomain:  "cluster.local",

		MaxConcurrentRollouts:   10,
		RolloutFailureThreshold: 3,

		Admission: AdmissionOptions{BindAddress: webhookOff},
	}
}

// AddFlags defines flags for the options. The current values are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", o.Workers, "`number` of objects of each kind reconciled at the same time")
	fs.DurationVar(&o.ResyncPeriod, "resync-period", o.ResyncPeriod,
		"`time` between two periodic reconciles of an object, with jitter")
	fs.StringVar(&o.AuditNamespace, "audit-namespace", o.AuditNamespace,
		"`namespace` of the audit records of deleted DemoApps; created if missing and permitted")
	fs.DurationVar(&o.AuditRetention, "audit-retention", o.AuditRetention,
		"`time` after which audit records are removed; 0 keeps them forever")
	fs.StringSliceVar(&o.AllowedSystemNamespaces, "allow-system-namespaces", o.AllowedSystemNamespaces,
		"comma-separated system `namespaces` ("+strings.Join(systemNamespaces, ", ")+") whose custom resources are reconciled, too; "+
			"those of --namespaces always are (default none)")
	fs.StringVar(&o.LicenseURL, "license-url", o.LicenseURL,
		"`url` of the license server; installs and upgrades wait unless it answers 200. A Go template with .Namespace, .Name "+
			"and .Image; https, or http on loopback (default none)")
	fs.DurationVar(&o.LicenseRetry, "license-retry", o.LicenseRetry,
		"`time` between two requests to a license server that does not grant the license, with jitter")
	fs.IntVar(&o.MaxConcurrentRollouts, "max-concurrent-rollouts", o.MaxConcurrentRollouts,
		"`number` of objects of a kind that get a newer chart, newer defaults or another change of the operator at the same time; "+
			"0 means no limit. An entry of the watches file can have its own")
	fs.IntVar(&o.RolloutFailureThreshold, "rollout-failure-threshold", o.RolloutFailureThreshold,
		"`number` of failed objects that halts such a rollout in their namespace, and of namespaces with failed objects that halts "+
			"it everywhere; 0 means no limit. An entry of the watches file can have its own")
	fs.StringSliceVar(&o.SharedDependencies, "shared-dependencies", o.SharedDependencies,
		"comma-separated `namespaces` whose objects the waitFor of resources in other namespaces may name; without it, a resource "+
			"waits for objects of its own namespace only (default none)")
	fs.StringSliceVar(&o.AllowedRegistries, "allowed-registries", o.AllowedRegistries,
		"comma-separated allowed `registries` of images, each a host or a host with a path prefix, for example "+
			"docker.io/library (default all)")
	fs.StringVar(&o.WebAppCleanupURL, "webapp-cleanup-url", o.WebAppCleanupURL,
		"`url` of a server that cleans up after deleted WebApps; a WebApp is gone when it answers a DELETE with 2xx or 404. A Go "+
			"template with .Namespace and .Name; https, or http on loopback (default none)")
	fs.StringSliceVar(&o.BlockedImages, "blocked-images", o.BlockedImages,
		"comma-separated `images` that WebApps do not roll out: a repository (all its tags), a tag or a digest, for example "+
			"nginx or nginx:1.27 (default none)")
	fs.StringVar(&o.WatchesFile, "watches-file", o.WatchesFile,
		"`path` of watches.yaml, which names further kinds and their charts; read again when it changes (default none)")
	fs.StringVar(&o.ChartCacheDir, "chart-cache-dir", o.ChartCacheDir,
		"`directory` for charts that watches.yaml names by an oci:// or https:// reference")
	fs.StringVar(&o.RegistryConfig, "registry-config", o.RegistryConfig,
		"Docker configuration `file` with the credentials of the registries of charts (default those of helm and docker)")
	fs.StringToStringVar(&o.PlatformHosts, "platform-hosts", o.PlatformHosts,
		"comma-separated `host=namespace` pairs: hosts, with their subdomains, that only EcommercePlatforms of the namespace may serve, "+
			"for example shop.example.com=team-a (default none: the first platform gets a host)")
	fs.StringVar(&o.ClusterDomain, "cluster-domain", o.ClusterDomain,
		"DNS `domain` of the cluster, in URLs and endpoints that the status shows and in the certificates of PostgreSQLs; connections use "+
			"names that end with .svc")
	fs.StringToStringVar(&o.DefaultBackupDestination, "default-backup-destination", o.DefaultBackupDestination,
		"comma-separated `field=value` pairs: fields of spec.destination of a Backup, where the dumps are kept of databases that name no "+
			"destination, for example type=s3,bucket=backups,region=eu-central-1; below the prefix, each namespace has a path of its own "+
			"(default none: such databases are not backed up)")
	o.addImageFlags(fs)
	fs.BoolVar(&o.StatusManifest, "status-manifest", o.StatusManifest,
		"write the manifest of the release, which may contain Secrets, to status.deployedRelease.manifest of the kinds of watches.yaml")
	o.Admission.addFlags(fs)
	o.Options.AddFlags(fs)
	fs.Lookup("controllers").Usage += "; watches is the name of all kinds of watches.yaml"
}

func (o *Options) addImageFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ImageRegistry, "image-registry", o.ImageRegistry,
		"`registry` that mirrors Docker Hub, a host or a host with a path, for the images that the operator names itself: "+
			"registry.example.com/hub turns redis:7-alpine into registry.example.com/hub/library/redis:7-alpine (default none)")
	fs.StringToStringVar(&o.Images, "images", o.Images,
		"comma-separated `image=image` pairs: images in place of those that the operator names itself, for example "+
			"postgres:17=registry.example.com/postgres:17.2; they must be alike, and win over --image-registry (default none)")
}

func (o *Options) validatePlatformHosts() (errs []error) {
	for host, namespace := range o.PlatformHosts {
		if len(validation.IsDNS1123Subdomain(host)) > 0 || len(validation.IsDNS1123Label(namespace)) > 0 {
			errs = append(errs, fmt.Errorf("--platform-hosts=%s=%s: must be a host and a namespace, for example shop.example.com=team-a", host, namespace))
		}
	}
	return errs
}

// parseImages sets the table of images.
func (o *Options) parseImages() error {
	if _, err := images.Parse(o.ImageRegistry, nil); err != nil {
		return fmt.Errorf("--image-registry=%s: %w", o.ImageRegistry, err)
	}
	var err error
	if o.images, err = images.Parse(o.ImageRegistry, o.Images); err != nil {
		return fmt.Errorf("--images: %w", err)
	}
	o.ReportedImages = o.images.Replaced()
	return nil
}

// parseDestination reads --default-backup-destination.
func (o *Options) parseDestination() (err error) {
	if o.destination, err = datastore.ParseDestination(o.DefaultBackupDestination); err != nil {
		return fmt.Errorf("--default-backup-destination: %w", err)
	}
	return nil
}

// Validate checks all flags and returns one error for each invalid flag. An error is one line with
// the flag, the value and the valid form.
func (o *Options) Validate() error {
	var errs []error
	bad := func(flag string, value any, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s=%v: "+format, append([]any{flag, value}, args...)...))
	}
	if o.Workers < 1 {
		bad("--workers", o.Workers, "must be at least 1")
	}
	if o.ResyncPeriod <= 0 {
		bad("--resync-period", o.ResyncPeriod, "must be longer than 0, for example 10m")
	}
	if len(validation.IsDNS1123Label(o.AuditNamespace)) > 0 {
		bad("--audit-namespace", o.AuditNamespace, "is not a valid name of a namespace: use at most %d lower-case letters, digits and "+
			"dashes between them", validation.DNS1123LabelMaxLength)
	}
	if o.AuditRetention < 0 {
		bad("--audit-retention", o.AuditRetention, "must be longer than 0, for example 2160h, or 0 to keep audit records forever")
	}
	for _, namespace := range o.AllowedSystemNamespaces {
		if !slices.Contains(systemNamespaces, namespace) {
			bad("--allow-system-namespaces", strings.Join(o.AllowedSystemNamespaces, ","), "%q is none of the system namespaces: %s",
				namespace, strings.Join(systemNamespaces, ", "))
		}
	}
	if o.LicenseURL != "" {
		if _, err := license.ParseURL(o.LicenseURL); err != nil {
			bad("--license-url", "(not shown)", "%v", err)
		}
	}
	if o.LicenseRetry < time.Second {
		bad("--license-retry", o.LicenseRetry, "must be at least 1s, for example 2m")
	}
	if o.MaxConcurrentRollouts < 0 {
		bad("--max-concurrent-rollouts", o.MaxConcurrentRollouts, "must be at least 1, or 0 for no limit")
	}
	if o.RolloutFailureThreshold < 0 {
		bad("--rollout-failure-threshold", o.RolloutFailureThreshold, "must be at least 1, or 0 for no limit")
	}
	if problems := validation.IsDNS1123Subdomain(o.ClusterDomain); len(problems) > 0 {
		bad("--cluster-domain", o.ClusterDomain, "must be a DNS domain, for example cluster.local")
	}
	errs = append(errs, o.parseImages(), o.parseDestination())
	errs = append(errs, o.validatePlatformHosts()...)
	for _, namespace := range o.SharedDependencies {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			bad("--shared-dependencies", strings.Join(o.SharedDependencies, ","), "%q is not the name of a namespace", namespace)
		}
	}
	if _, err := registries.Parse(o.AllowedRegistries); err != nil {
		bad("--allowed-registries", strings.Join(o.AllowedRegistries, ","), "%v", err)
	}
	if o.WebAppCleanupURL != "" {
		if _, err := cleanup.ParseURL(o.WebAppCleanupURL); err != nil {
			bad("--webapp-cleanup-url", "(not shown)", "%v", err)
		}
	}
	if _, err := blocked.ParseBlocklist(o.BlockedImages); err != nil {
		bad("--blocked-images", strings.Join(o.BlockedImages, ","), "%v", err)
	}
	o.Admission.validate(bad)
	return errors.Join(append(errs, o.Options.Validate())...)
}

// refuse returns why the custom resources of a namespace are not reconciled; "" if they are.
func (o *Options) refuse(namespace string) string {
	if !slices.Contains(systemNamespaces, namespace) || slices.Contains(o.Namespaces, namespace) || slices.Contains(o.AllowedSystemNamespaces, namespace) {
		return ""
	}
	return fmt.Sprintf("%s is a system namespace, in which the operator changes nothing: use another namespace, or set --allow-system-namespaces=%s",
		namespace, namespace)
}

// rolloutLimits returns the limits of rollouts, where a negative number means no limit.
func (o *Options) rolloutLimits() rollout.Limits {
	limits := rollout.Limits{Active: o.MaxConcurrentRollouts, Failed: o.RolloutFailureThreshold}
	if limits.Active == 0 {
		limits.Active = -1
	}
	if limits.Failed == 0 {
		limits.Failed = -1
	}
	return limits
}
