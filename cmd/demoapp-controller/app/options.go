// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/example/demoapp-controller/pkg/controller/license"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/operator"
)

// Options are the flags of the command, as given.
type Options struct {
	// Options are those of any operator.
	operator.Options
	// Workers is the number of DemoApps that are reconciled at the same time.
	Workers int
	// ResyncPeriod is the time between two full checks of a DemoApp that no event has touched.
	ResyncPeriod time.Duration
	// AuditNamespace receives the audit records of deleted DemoApps.
	AuditNamespace string
	// AuditRetention is the age at which audit records are removed; 0 keeps them for good.
	AuditRetention time.Duration
	// LicenseURL is the template of the URL that is asked before an install or upgrade; empty means that nobody is asked.
	// It may hold a secret.
	LicenseURL string
	// LicenseRetry is the time until the license server is asked again after it did not agree.
	LicenseRetry time.Duration
	// MaxConcurrentRollouts is how many DemoApps are upgraded to a newer chart at a time; 0 is any number.
	MaxConcurrentRollouts int
	// RolloutFailureThreshold is the number of failures that halts the rollout of a newer chart; 0 is none.
	RolloutFailureThreshold int
	// AllowedRegistries are where the images of DemoApps may come from; empty means anywhere.
	AllowedRegistries []string
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Options:        *operator.NewOptions(programName, version(), defaultNamespace),
		Workers:        10,
		ResyncPeriod:   10 * time.Minute,
		AuditNamespace: "demoapp-audit",
		AuditRetention: 90 * 24 * time.Hour,
		LicenseRetry:   2 * time.Minute,

		MaxConcurrentRollouts:   10,
		RolloutFailureThreshold: 3,
	}
}

// AddFlags binds the options to flags; their present values are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", o.Workers, "`number` of DemoApps reconciled at the same time")
	fs.DurationVar(&o.ResyncPeriod, "resync-period", o.ResyncPeriod,
		"`time` between two full checks of a DemoApp that no event has touched; jittered")
	fs.StringVar(&o.AuditNamespace, "audit-namespace", o.AuditNamespace,
		"`namespace` for the audit records of deleted DemoApps; created if missing")
	fs.DurationVar(&o.AuditRetention, "audit-retention", o.AuditRetention,
		"`time` after which audit records are removed; 0 keeps them for good")
	fs.StringVar(&o.LicenseURL, "license-url", o.LicenseURL,
		"`url` asked before each install and upgrade, which wait unless it answers 200; a Go template over .Namespace, .Name "+
			"and .Image; https, or http on loopback (default none)")
	fs.DurationVar(&o.LicenseRetry, "license-retry", o.LicenseRetry,
		"`time` until the license server is asked again after it did not agree; jittered")
	fs.IntVar(&o.MaxConcurrentRollouts, "max-concurrent-rollouts", o.MaxConcurrentRollouts,
		"`number` of DemoApps that are upgraded to a newer chart at the same time; 0 is any number")
	fs.IntVar(&o.RolloutFailureThreshold, "rollout-failure-threshold", o.RolloutFailureThreshold,
		"`number` of DemoApps that have failed with a newer chart at which no further ones are upgraded to it; 0 is never")
	fs.StringSliceVar(&o.AllowedRegistries, "allowed-registries", o.AllowedRegistries,
		"comma-separated `registries` that images may come from, each a host or a host and the beginning of a path, for example "+
			"docker.io/library (default all)")
	o.Options.AddFlags(fs)
}

// Validate checks all flags and returns one error for each wrong one. An error is one line that names the flag, the
// value and what would be right.
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
		bad("--audit-namespace", o.AuditNamespace, "is not the name of a namespace: use at most %d lower-case letters, digits and "+
			"dashes between them", validation.DNS1123LabelMaxLength)
	}
	if o.AuditRetention < 0 {
		bad("--audit-retention", o.AuditRetention, "must be longer than 0, for example 2160h, or 0 to keep audit records for good")
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
		bad("--max-concurrent-rollouts", o.MaxConcurrentRollouts, "must be at least 1, or 0 for any number")
	}
	if o.RolloutFailureThreshold < 0 {
		bad("--rollout-failure-threshold", o.RolloutFailureThreshold, "must be at least 1, or 0 for never")
	}
	if _, err := registries.Parse(o.AllowedRegistries); err != nil {
		bad("--allowed-registries", strings.Join(o.AllowedRegistries, ","), "%v", err)
	}
	return errors.Join(append(errs, o.Options.Validate())...)
}
