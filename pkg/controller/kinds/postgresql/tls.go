// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/certificates"
	"github.com/example/demoapp-controller/pkg/serving"
)

const tlsPath = "/tls"

// certification is the decision of a pass about the certificate of the servers. It is zero without
// TLS.
type certification struct {
	// children are the objects with the operator's certificates.
	children []child.Desired
	// renewal is the time of the next renewal; zero with a Secret of the user.
	renewal time.Time
	// missing is the name of the Secret that does not exist yet, or whose state is not known.
	// Existing pods must not roll until then, because they would mount a foreign Secret, or none.
	missing string
	// problem describes the missing parts of the user's Secret.
	problem *datastore.Problem
}

// certify decides about the certificate of the servers.
func (c *postgreSQLs) certify(ctx context.Context, p *pass) (certification, error) {
	switch tls := p.Object.Spec.TLS; {
	case tls == nil:
		return certification{}, nil
	case tls.SecretName != "":
		return c.certifyByUser(ctx, p, tls.SecretName)
	}
	name := certificates.Name(p.Object.Name)
	labels := childLabels(p.Object)
	authority := corev1ac.ConfigMap(p.Object.Name+"-ca", "").WithLabels(labels)
	labels[databasev1.LabelCertificate] = p.Object.Name
	pair := corev1ac.Secret(name, "").WithLabels(labels).WithType(corev1.SecretTypeTLS)
	headless := headlessName(p.Object.Name)
	issued, err := c.certificates.Issue(ctx, p.Object, []string{p.Object.Name, p.Object.Name + "-read", headless, "*." + headless}, c.domain, p.Now)
	if err != nil {
		return certification{children: []child.Desired{child.Retain(pair), child.Retain(authority)}, missing: name}, fmt.Errorf("certificates: %w", err)
	}
	decided := certification{renewal: issued.Renewal, children: []child.Desired{
		pair.WithData(issued.Data), authority.WithData(map[string]string{serving.CABundleKey: string(issued.Data[serving.CABundleKey])}),
	}}
	if !issued.Exists {
		decided.missing = name
	}
	return decided, nil
}

// certifyByUser looks whether the pods can mount the Secret of the user. The operator does not
// watch the Secret, so it looks only while a change is not Ready.
func (c *postgreSQLs) certifyByUser(ctx context.Context, p *pass, name string) (certification, error) {
	ready := meta.FindStatusCondition(p.Observed.Status.Conditions, apimeta.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == p.Object.Generation {
		return certification{}, nil
	}
	lack, err := c.certificates.Lack(ctx, p.Object.Namespace, name)
	switch {
	case err != nil:
		return certification{missing: name}, fmt.Errorf("certificates: %w", err)
	case lack != "":
		return certification{missing: name, problem: &datastore.Problem{
			Reason: databasev1.ReasonCertificateMissing, Message: "spec.tls.secretName: " + lack,
		}}, nil
	}
	return certification{}, nil
}

// mountCertificate mounts the certificate, and lets start.sh use it. Without TLS, the pod stays as
// it is.
func mountCertificate(p *databasev1.PostgreSQL, pod *corev1ac.PodSpecApplyConfiguration) {
	if p.Spec.TLS == nil {
		return
	}
	name, mode := certificates.Name(p.Name), "on"
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
