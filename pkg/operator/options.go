// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
)

// Values of Options.LoggingFormat.
const (
	LoggingFormatText = "text"
	LoggingFormatJSON = "json"
)

// addressOff is the bind address that turns an endpoint off.
const addressOff = "0"

// maxVerbosity is the highest valid -v. From 8 on, client-go logs the bodies of requests and
// responses, which may contain Secrets.
const maxVerbosity = 7

// maxShards is the largest --shards. Each shard has a Lease that its holder renews each retry
// period.
const maxShards = 64

// Options configure the process. NewOptions returns the defaults, and AddFlags defines the flags.
type Options struct {
	// Name is the program's name in user agents and events.
	Name string
	// Version is the program's version in user agents, logs and the metric <name>_build_info.
	Version string
	// ReportedImages are the images that replace the program's default images, for the report on
	// the Lease. Optional.
	ReportedImages map[string]string
	// Commit and Date are the commit that the program was built from and its time (RFC 3339), or
	// "unknown". The commit of a build with uncommitted changes ends with "+dirty".
	Commit, Date string
	// Kubeconfig is the path of a kubeconfig file. If it is empty, the service account of the pod
	// is used.
	Kubeconfig string
	// Namespaces are the watched namespaces. If it is empty, all namespaces are watched.
	Namespaces []string
	// Controllers are the kinds that run, by Kind.Name: "name" enables a kind, "-name" disables it,
	// and "*" enables all kinds that no other item names. If it is empty, all kinds run.
	// [Options.Select] checks the names.
	Controllers []string
	// LeaderElection configures the lease.
	LeaderElection LeaderElectionOptions
	// Shards is the number of shards that the replicas divide among themselves. With 1, one replica
	// does all the work.
	Shards int
	// MetricsBindAddress is the host:port of /metrics; "0" turns it off.
	MetricsBindAddress string
	// MetricsSecure serves metrics over HTTPS, to clients whose bearer token may get the path.
	MetricsSecure bool
	// MetricsCertDir is the directory of tls.crt and tls.key of the metrics. If it is empty, the
	// certificate is self-signed.
	MetricsCertDir string
	// ProbeBindAddress is the host:port of /healthz and /readyz; "0" turns it off.
	ProbeBindAddress string
	// PprofBindAddress is the host:port of /debug/pprof; "0" turns it off.
	PprofBindAddress string
	// ShutdownTimeout bounds the wait for work in flight after a signal.
	ShutdownTimeout time.Duration
	// LoggingFormat is LoggingFormatText or LoggingFormatJSON.
	LoggingFormat string
	// Verbosity is the highest V level that is logged, 0 to 7.
	Verbosity int
}

// LeaderElectionOptions configure the lease that makes one replica the leader.
type LeaderElectionOptions struct {
	// Enabled is false for a process that runs alone.
	Enabled bool
	// LeaseDuration is the time after which a standby takes over from a leader that does not renew.
	// Whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is the time after which a leader that cannot renew the lease stops.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts to acquire or renew the lease.
	RetryPeriod time.Duration
	// ResourceNamespace is the namespace of the Lease. If it is empty, the namespace of the pod is
	// used.
	ResourceNamespace string
	// FallbackNamespace is the namespace of the Lease if ResourceNamespace is empty and the process
	// runs outside a pod.
	FallbackNamespace string
	// ResourceName is the name of the Lease.
	ResourceName string
}

// NewOptions returns the defaults of a program with this name and version. If version is empty, the
// version comes from the binary: the version that the linker set, or the version that the go
// command stamped. The lease has the same name as the program. Outside a pod, the lease is in
// fallbackNamespace.
func NewOptions(name, version, fallbackNamespace string) *Options {
	build := readStamp(version)
	return &Options{
		Name:        name,
		Version:     build.version,
		Commit:      build.commit,
		Date:        build.date,
		Controllers: []string{allControllers},
		LeaderElection: LeaderElectionOptions{
			Enabled:           true,
			LeaseDuration:     15 * time.Second,
			RenewDeadline:     10 * time.Second,
			RetryPeriod:       time.Second,
			FallbackNamespace: fallbackNamespace,
			ResourceName:      name,
		},
		Shards:             1,
		MetricsBindAddress: ":8080",
		ProbeBindAddress:   ":8081",
		PprofBindAddress:   addressOff,
		ShutdownTimeout:    25 * time.Second,
		LoggingFormat:      LoggingFormatText,
	}
}

// AddFlags defines flags for the options. The current values are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig `file`; not needed in a pod (the variable KUBECONFIG is ignored)")
	fs.StringSliceVar(&o.Namespaces, "namespaces", o.Namespaces,
		"comma-separated `names` of the namespaces to watch (default all)")
	fs.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"comma-separated `names` of the kinds to run: name enables a kind, -name disables it, * enables all kinds that are not "+
			"named. A disabled kind sends no requests")
	fs.IntVar(&o.Shards, "shards", o.Shards,
		fmt.Sprintf("`number` of shards of the namespaces, at most %d, which the replicas divide among themselves; with 1, one replica does "+
			"all the work", maxShards))
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"`host:port` of /metrics; 0 turns it off, port 0 selects a free port")
	fs.BoolVar(&o.MetricsSecure, "metrics-secure", o.MetricsSecure,
		"serve metrics over HTTPS, and only to clients with a bearer token whose user may get the path /metrics (TokenReview and "+
			"SubjectAccessReview)")
	fs.StringVar(&o.MetricsCertDir, "metrics-cert-dir", o.MetricsCertDir,
		"`directory` of tls.crt and tls.key of the metrics, read again when they change; needs --metrics-secure (default: a "+
			"self-signed certificate)")
	fs.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", o.ProbeBindAddress,
		"`host:port` of /healthz and /readyz; 0 turns them off, port 0 selects a free port")
	fs.StringVar(&o.PprofBindAddress, "pprof-bind-address", o.PprofBindAddress,
		"`host:port` of /debug/pprof, which has no authentication; 0 turns it off, port 0 selects a free port")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout,
		"maximum `time` for work in flight to finish after a signal; keep it below the pod's terminationGracePeriodSeconds")
	fs.StringVar(&o.LoggingFormat, "logging-format", o.LoggingFormat, "`format` of the log: text or json")
	fs.IntVarP(&o.Verbosity, "v", "v", o.Verbosity, "log verbosity `level`, from 0 to 7")
	o.LeaderElection.addFlags(fs)
}

func (o *LeaderElectionOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "leader-elect", o.Enabled,
		"elect a leader by a lease, so that only one of several replicas is active")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration,
		"`time` after which another replica takes over from a leader that does not renew the lease; whole seconds")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline,
		"`time` after which a leader that cannot renew the lease exits")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod,
		"`time` between two attempts to acquire or renew the lease")
	fs.StringVar(&o.ResourceNamespace, "leader-elect-resource-namespace", o.ResourceNamespace,
		"`namespace` of the lease (default: the namespace of the pod, or "+o.FallbackNamespace+" outside a pod)")
	fs.StringVar(&o.ResourceName, "leader-elect-resource-name", o.ResourceName, "`name` of the lease")
}

// Validate checks all flags and returns one error for each invalid flag. An error is one line with
// the flag, the value and the valid form.
func (o *Options) Validate() error {
	var errs []error
	bad := func(flag string, value any, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s=%v: "+format, append([]any{flag, value}, args...)...))
	}
	for _, ns := range o.Namespaces {
		if reason := namespaceProblem(strings.TrimSpace(ns)); reason != "" {
			bad("--namespaces", strings.Join(o.Namespaces, ","), "%q is not a valid name of a namespace: %s", ns, reason)
			break
		}
	}
	if o.ShutdownTimeout <= 0 {
		bad("--shutdown-timeout", o.ShutdownTimeout, "must be longer than 0, for example 25s")
	}
	if o.LoggingFormat != LoggingFormatText && o.LoggingFormat != LoggingFormatJSON {
		bad("--logging-format", o.LoggingFormat, "must be %s or %s", LoggingFormatText, LoggingFormatJSON)
	}
	if o.Verbosity < 0 || o.Verbosity > maxVerbosity {
		bad("-v", o.Verbosity, "must be between 0 and %d (more would log the contents of Secrets)", maxVerbosity)
	}
	if o.Shards < 1 || o.Shards > maxShards {
		bad("--shards", o.Shards, "must be between 1 and %d", maxShards)
	} else if o.Shards > 1 && !o.LeaderElection.Enabled {
		bad("--shards", o.Shards, "needs leader election; remove --leader-elect=false, or set --shards=1")
	}
	o.validateAddresses(bad)
	if o.MetricsSecure && o.MetricsBindAddress == addressOff {
		bad("--metrics-secure", o.MetricsSecure, "needs --metrics-bind-address, which is 0; set an address or remove --metrics-secure")
	}
	if o.MetricsCertDir != "" && !o.MetricsSecure {
		bad("--metrics-cert-dir", o.MetricsCertDir, "is used only with --metrics-secure; set both or none")
	}
	o.LeaderElection.validate(bad)
	return errors.Join(errs...)
}

// reportFunc reports an invalid value of a flag and the reason.
type reportFunc func(flag string, value any, format string, args ...any)

func (o *Options) validateAddresses(bad reportFunc) {
	taken := map[string]string{}
	for _, endpoint := range []struct{ flag, address string }{
		{"--metrics-bind-address", o.MetricsBindAddress},
		{"--health-probe-bind-address", o.ProbeBindAddress},
		{"--pprof-bind-address", o.PprofBindAddress},
	} {
		if reason := addressProblem(endpoint.address); reason != "" {
			bad(endpoint.flag, endpoint.address, "%s; use host:port or :port, or 0 to turn it off", reason)
		}
		_, port, err := net.SplitHostPort(endpoint.address)
		if err != nil || port == "0" {
			continue
		}
		if by, ok := taken[endpoint.address]; ok {
			bad(endpoint.flag, endpoint.address, "is also the address of %s; use another port", by)
		}
		taken[endpoint.address] = endpoint.flag
	}
}

func (o *LeaderElectionOptions) validate(bad reportFunc) {
	if !o.Enabled {
		return
	}
	if o.LeaseDuration < time.Second || o.LeaseDuration%time.Second != 0 {
		bad("--leader-elect-lease-duration", o.LeaseDuration, "must be whole seconds, at least 1s")
	}
	if o.RetryPeriod <= 0 {
		bad("--leader-elect-retry-period", o.RetryPeriod, "must be longer than 0, for example 2s")
	}
	if o.RenewDeadline >= o.LeaseDuration {
		bad("--leader-elect-renew-deadline", o.RenewDeadline,
			"must be shorter than --leader-elect-lease-duration=%v, because otherwise two replicas could lead at a time", o.LeaseDuration)
	}
	if longest := time.Duration(leaderelection.JitterFactor * float64(o.RetryPeriod)); o.RenewDeadline <= longest {
		bad("--leader-elect-renew-deadline", o.RenewDeadline,
			"must be longer than %v, which is %v times --leader-elect-retry-period", longest, leaderelection.JitterFactor)
	}
	if o.ResourceNamespace != "" {
		if reason := namespaceProblem(o.ResourceNamespace); reason != "" {
			bad("--leader-elect-resource-namespace", o.ResourceNamespace, "is not a valid name of a namespace: %s", reason)
		}
	}
	if len(validation.IsDNS1123Subdomain(o.ResourceName)) > 0 {
		bad("--leader-elect-resource-name", o.ResourceName,
			"is not a valid name of a lease: use lower-case letters and digits, and dashes and dots between them")
	}
}

// namespaceProblem returns the reason why name is not a valid name of a namespace, or "".
func namespaceProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(validation.IsDNS1123Label(name)) > 0:
		return fmt.Sprintf("use at most %d lower-case letters, digits and dashes between them", validation.DNS1123LabelMaxLength)
	default:
		return ""
	}
}

// addressProblem returns the reason why address is not a valid listen address, or "".
func addressProblem(address string) string {
	if address == addressOff {
		return ""
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "is not a valid listen address"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("port %q is not a number between 0 and 65535", port)
	}
	return ""
}

// SetupLogging directs all logs to w in the configured format: klog (this project and client-go),
// slog (Helm) and log. It changes process-wide state. Call it once, before the first log line.
func (o *Options) SetupLogging(w io.Writer) {
	setupLogging(w, o.LoggingFormat, o.Verbosity)
}
