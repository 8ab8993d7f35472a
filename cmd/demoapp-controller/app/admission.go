// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/pkg/serving"
	"github.com/example/demoapp-controller/pkg/webhook"
	"github.com/example/demoapp-controller/pkg/webhook/certificates"
	"github.com/example/demoapp-controller/pkg/webhook/webapp"
)

// Names in artifacts/kinds/webapp/admission.
const (
	webhookOff            = "0"
	webhookService        = "demoapp-webhook"
	webhookSecret         = "demoapp-webhook-certificates" //nolint:gosec // The name of a Secret is not a secret.
	webhookConfigurations = "webapp-admission"
)

// AdmissionOptions are the flags of the webhook of WebApps.
type AdmissionOptions struct {
	// BindAddress is the host:port of the webhook; "0" turns it off.
	BindAddress string
	// CertDir is the directory of tls.crt and tls.key. If it is empty, the operator issues its own
	// certificates.
	CertDir string
	// Hosts are the DNS names and IP addresses of own certificates. If it is empty, it is the
	// Service of the webhook.
	Hosts []string
	// ApprovedRegistries are the registries that images of WebApps may come from. If it is empty,
	// all are approved.
	ApprovedRegistries []string
}

func (o *AdmissionOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "webhook-bind-address", o.BindAddress,
		"`host:port` of the admission webhook of WebApps; 0 turns it off")
	fs.StringVar(&o.CertDir, "webhook-cert-dir", o.CertDir,
		"`directory` of tls.crt and tls.key of the webhook, read again when they change (default: certificates of an own CA)")
	fs.StringSliceVar(&o.Hosts, "webhook-hosts", o.Hosts,
		"comma-separated DNS `names` and IP addresses in certificates of the own CA (default "+webhookService+
			".<namespace of the lease>.svc)")
	fs.StringSliceVar(&o.ApprovedRegistries, "approved-registries", o.ApprovedRegistries,
		"comma-separated `registries` that the webhook approves for images of WebApps, each a host or a host with a path prefix "+
			"(default all)")
}

func (o *AdmissionOptions) validate(bad func(flag string, value any, format string, args ...any)) {
	if o.BindAddress != webhookOff {
		if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
			bad("--webhook-bind-address", o.BindAddress, "is not an address; use host:port or :port, or 0 to turn it off")
		}
	}
	for _, host := range o.Hosts {
		if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			bad("--webhook-hosts", strings.Join(o.Hosts, ","), "%q is neither a DNS name in lower case nor an IP address", host)
		}
	}
	if _, err := registries.Parse(o.ApprovedRegistries); err != nil {
		bad("--approved-registries", strings.Join(o.ApprovedRegistries, ","), "%v", err)
	} else if len(o.ApprovedRegistries) > 0 && o.BindAddress == webhookOff {
		bad("--approved-registries", strings.Join(o.ApprovedRegistries, ","),
			"has no effect without the webhook; set --webhook-bind-address, or use the policies of artifacts/kinds/webapp/admission")
	}
}

// webAppAdmission is the webhook of WebApps, which every replica serves. It watches no custom
// resources.
func webAppAdmission(ctx context.Context, options AdmissionOptions) operator.Kind {
	return operator.Kind{
		Name:  webhookConfigurations,
		Build: func(env *operator.Environment) error { return buildWebAppAdmission(ctx, env, options) },
	}
}

func buildWebAppAdmission(ctx context.Context, env *operator.Environment, options AdmissionOptions) error {
	approved, err := registries.Parse(options.ApprovedRegistries)
	if err != nil {
		return err
	}
	source, err := webhookCertificates(env, options)
	if err != nil {
		return err
	}
	server, err := webhook.Listen(ctx, options.BindAddress, webapp.Handlers(approved), source, clock.RealClock{})
	if err != nil {
		return fmt.Errorf("--webhook-bind-address=%s: %w", options.BindAddress, err)
	}
	observeCertificate(env.Registry, source)
	env.AddService("webhook", server.Run)
	env.AddCheck("webhook", server.Ready)
	return nil
}

// observeCertificate registers a gauge with the end of the serving certificate.
func observeCertificate(registry prometheus.Registerer, source webhook.Certificates) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "webhook_certificate_expiration_timestamp_seconds",
		Help: "Unix time at which the serving certificate of the webhook expires; 0 without a certificate.",
	}, func() float64 {
		certificate, err := source.Certificate()
		if err != nil || certificate.Leaf == nil {
			return 0
		}
		return float64(certificate.Leaf.NotAfter.Unix())
	}))
}

// webhookCertificates returns the source of the serving certificate.
func webhookCertificates(env *operator.Environment, options AdmissionOptions) (webhook.Certificates, error) {
	if options.CertDir != "" {
		files, err := serving.NewFiles(options.CertDir, clock.RealClock{})
		if err != nil {
			return nil, fmt.Errorf("--webhook-cert-dir=%s: %w", options.CertDir, err)
		}
		return files, nil
	}
	namespace := defaultNamespace
	if lease := env.Lease(); lease != nil {
		namespace = lease.Namespace
	}
	hosts := options.Hosts
	if len(hosts) == 0 {
		hosts = []string{webhookService + "." + namespace + ".svc"}
	}
	authority, err := certificates.NewAuthority(env.Clients.Kube, certificates.Options{
		Name: programName + "-webhook", Namespace: namespace, Secret: webhookSecret, Hosts: hosts,
		Configurations: webhookConfigurations, WatchErrors: env.Metrics.WatchErrors, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	env.AddService("certificates of the webhook", authority.Run)
	return authority, nil
}
