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

// maxVerbosity is the highest -v that is accepted: from 8 on, client-go logs the bodies of requests and responses, and
// with them Secrets.
const maxVerbosity = 7

// Options configure the process. NewOptions has the defaults, and AddFlags the flags that change them.
type Options struct {
	// Name is the program's name in user agents and events.
	Name string
	// Version is the program's version in user agents and logs.
	Version string
	// Kubeconfig names a kubeconfig file; empty means the service account of the pod.
	Kubeconfig string
	// Namespaces are watched; empty means all.
	Namespaces []string
	// LeaderElection configures the lease.
	LeaderElection LeaderElectionOptions
	// MetricsBindAddress is the host:port of /metrics; "0" is off.
	MetricsBindAddress string
	// ProbeBindAddress is the host:port of /healthz and /readyz; "0" is off.
	ProbeBindAddress string
	// PprofBindAddress is the host:port of /debug/pprof; "0" is off.
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
	// LeaseDuration is how long others wait for a leader that has fallen silent. Whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew the lease before it gives up.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two tries.
	RetryPeriod time.Duration
	// ResourceNamespace is where the Lease lives; empty means the namespace of the pod.
	ResourceNamespace string
	// FallbackNamespace is where the Lease lives if ResourceNamespace is empty and the process runs in no pod.
	FallbackNamespace string
	// ResourceName is the name of the Lease.
	ResourceName string
}

// NewOptions returns the defaults of a program of that name and version, which is also the name of its lease. Outside a
// pod the lease is in fallbackNamespace.
func NewOptions(name, version, fallbackNamespace string) *Options {
	return &Options{
		Name:    name,
		Version: version,
		LeaderElection: LeaderElectionOptions{
			Enabled:           true,
			LeaseDuration:     15 * time.Second,
			RenewDeadline:     10 * time.Second,
			RetryPeriod:       2 * time.Second,
			FallbackNamespace: fallbackNamespace,
			ResourceName:      name,
		},
		MetricsBindAddress: ":8080",
		ProbeBindAddress:   ":8081",
		PprofBindAddress:   addressOff,
		ShutdownTimeout:    25 * time.Second,
		LoggingFormat:      LoggingFormatText,
	}
}

// AddFlags binds the options to flags; their present values are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"`file` that says how to reach the API server; not needed in a cluster (the KUBECONFIG variable is not read)")
	fs.StringSliceVar(&o.Namespaces, "namespaces", o.Namespaces,
		"comma-separated `names` of the namespaces to watch (default all)")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"`host:port` of /metrics; 0 is off, port 0 picks a free one")
	fs.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", o.ProbeBindAddress,
		"`host:port` of /healthz and /readyz; 0 is off, port 0 picks a free one")
	fs.StringVar(&o.PprofBindAddress, "pprof-bind-address", o.PprofBindAddress,
		"`host:port` of /debug/pprof, which shows to anybody who can reach it what the process does; 0 is off, port 0 picks a free one")
	fs.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout,
		"`time` that work in flight has to finish after a signal; keep it below the pod's terminationGracePeriodSeconds")
	fs.StringVar(&o.LoggingFormat, "logging-format", o.LoggingFormat, "`format` of the log: text or json")
	fs.IntVarP(&o.Verbosity, "v", "v", o.Verbosity, "log `level`, 0 to 7: the higher, the more is logged")
	o.LeaderElection.addFlags(fs)
}

func (o *LeaderElectionOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "leader-elect", o.Enabled,
		"hold a lease while working, so that of several replicas only one works")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration,
		"`time` after which another replica takes over from a leader that has fallen silent; whole seconds")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline,
		"`time` for which the leader tries to renew the lease before it stops and exits")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod,
		"`time` between two tries to acquire or renew the lease")
	fs.StringVar(&o.ResourceNamespace, "leader-elect-resource-namespace", o.ResourceNamespace,
		"`namespace` of the lease (default that of the pod, "+o.FallbackNamespace+" outside a cluster)")
	fs.StringVar(&o.ResourceName, "leader-elect-resource-name", o.ResourceName, "`name` of the lease")
}

// Validate checks all flags and returns one error for each wrong one. An error is one line that names the flag, the
// value and what would be right.
func (o *Options) Validate() error {
	var errs []error
	bad := func(flag string, value any, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s=%v: "+format, append([]any{flag, value}, args...)...))
	}
	for _, ns := range o.Namespaces {
		if reason := namespaceProblem(strings.TrimSpace(ns)); reason != "" {
			bad("--namespaces", strings.Join(o.Namespaces, ","), "%q is not the name of a namespace: %s", ns, reason)
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
	o.validateAddresses(bad)
	o.LeaderElection.validate(bad)
	return errors.Join(errs...)
}

// reportFunc notes that the value of a flag is wrong, and why.
type reportFunc func(flag string, value any, format string, args ...any)

func (o *Options) validateAddresses(bad reportFunc) {
	taken := map[string]string{}
	for _, endpoint := range []struct{ flag, address string }{
		{"--metrics-bind-address", o.MetricsBindAddress},
		{"--health-probe-bind-address", o.ProbeBindAddress},
		{"--pprof-bind-address", o.PprofBindAddress},
	} {
		if reason := addressProblem(endpoint.address); reason != "" {
			bad(endpoint.flag, endpoint.address, "%s; use host:port, :port, or 0 for off", reason)
		}
		_, port, err := net.SplitHostPort(endpoint.address)
		if err != nil || port == "0" {
			continue
		}
		if by, ok := taken[endpoint.address]; ok {
			bad(endpoint.flag, endpoint.address, "is taken by %s; use another port", by)
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
			"must be shorter than --leader-elect-lease-duration=%v, or two replicas could lead at once", o.LeaseDuration)
	}
	if longest := time.Duration(leaderelection.JitterFactor * float64(o.RetryPeriod)); o.RenewDeadline <= longest {
		bad("--leader-elect-renew-deadline", o.RenewDeadline,
			"must be longer than %v, which is %v times --leader-elect-retry-period", longest, leaderelection.JitterFactor)
	}
	if o.ResourceNamespace != "" {
		if reason := namespaceProblem(o.ResourceNamespace); reason != "" {
			bad("--leader-elect-resource-namespace", o.ResourceNamespace, "is not the name of a namespace: %s", reason)
		}
	}
	if len(validation.IsDNS1123Subdomain(o.ResourceName)) > 0 {
		bad("--leader-elect-resource-name", o.ResourceName,
			"is not a name of a lease: use lower-case letters and digits, and dashes and dots between them")
	}
}

// namespaceProblem says why name cannot be a namespace, or nothing.
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

// addressProblem says why address cannot be listened on, or nothing.
func addressProblem(address string) string {
	if address == addressOff {
		return ""
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "is not an address to listen on"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("port %q is not a number between 0 and 65535", port)
	}
	return ""
}

// SetupLogging makes one handler in the configured format the sink of all logs: klog (our own lines and client-go's), slog
// (Helm's) and log. It changes process-wide state, so call it once, before anything logs.
func (o *Options) SetupLogging(w io.Writer) {
	setupLogging(w, o.LoggingFormat, o.Verbosity)
}
