// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/certificates"
	"github.com/example/demoapp-controller/pkg/serving"
)

const tlsPath = "/tls"

// isUncertified reports whether the servers need a certificate of the operator that does not exist
// yet. Existing pods must not roll until then, because they would mount a Secret of others with its
// name.
func isUncertified(p *databasev1.PostgreSQL, secrets certificates.Secrets) bool {
	_, exists := secrets.Of(p, tlsName(p.Name))
	return p.Spec.TLS != nil && p.Spec.TLS.SecretName == "" && !exists
}

// desiredCertificates returns the children with the certificates of a PostgreSQL, and the time of the next
// renewal. There are none without TLS, and with a Secret of the user.
func desiredCertificates(p *databasev1.PostgreSQL, secrets certificates.Secrets, now time.Time) ([]child.Desired, time.Time, error) {
	if p.Spec.TLS == nil || p.Spec.TLS.SecretName != "" {
		return nil, time.Time{}, nil
	}
	observed, cached := secrets.Of(p, tlsName(p.Name))
	next, _, err := observed.Renew(p.Name, serverNames(p), true, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := next.Encode()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("certificates: %w", err)
	}
	labels := childLabels(p)
	authority := corev1ac.ConfigMap(p.Name+"-ca", "").WithLabels(labels).WithData(map[string]string{serving.CABundleKey: string(next.Bundle())})
	labels[databasev1.LabelCertificate] = p.Name
	pair := corev1ac.Secret(tlsName(p.Name), "").WithLabels(labels).WithType(corev1.SecretTypeTLS).WithData(data)
	// The cache may lag behind the creation of the Secret. New certificates must not replace those of
	// a Secret that is not cached yet. An object of others is no reason to wait: it is a conflict.
	uncached := func(got *child.Observed) bool { return got != nil && !cached && metav1.IsControlledBy(got, p) }
	return []child.Desired{child.RetainIf(pair, uncached), child.RetainIf(authority, uncached)}, next.Wake(), nil
}

// serverNames are the names by which clients and standbys reach the servers.
func serverNames(p *databasev1.PostgreSQL) []string {
	var names []string
	for _, service := range []string{p.Name, p.Name + "-read", headlessName(p.Name), "*." + headlessName(p.Name)} {
		for _, domain := range []string{"", "." + p.Namespace, "." + p.Namespace + ".svc", "." + p.Namespace + ".svc.cluster.local"} {
			names = append(names, service+domain)
		}
	}
	return append(names, "localhost")
}

func tlsName(name string) string { return name + "-tls" }

// mountCertificate mounts the certificate, and lets start.sh use it. Without TLS, the pod stays as it
// is.
func mountCertificate(p *databasev1.PostgreSQL, pod *corev1ac.PodSpecApplyConfiguration) {
	if p.Spec.TLS == nil {
		return
	}
	name, mode := tlsName(p.Name), "on"
	if p.Spec.TLS.SecretName != "" {
		name = p.Spec.TLS.SecretName
	}
	if p.Spec.TLS.Required {
		mode = "required"
	}
	pod.Containers[0].WithEnv(corev1ac.EnvVar().WithName("TLS").WithValue(mode)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName("tls").WithMountPath(tlsPath).WithReadOnly(true))
	// The key of the CA stays in the Secret.
	pod.WithVolumes(corev1ac.Volume().WithName("tls").WithSecret(corev1ac.SecretVolumeSource().WithSecretName(name).WithDefaultMode(0o440).
		WithItems(
			corev1ac.KeyToPath().WithKey(corev1.TLSCertKey).WithPath(corev1.TLSCertKey),
			corev1ac.KeyToPath().WithKey(corev1.TLSPrivateKeyKey).WithPath(corev1.TLSPrivateKeyKey))))
}
