// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// The keys of an audit record.
const (
	auditDeletedAt = "deleted-at"
	auditSpec      = "spec"
	auditStatus    = "status"
)

// sourceUIDAnnotation tells the records of two DemoApps apart that would have
// the same name.
const sourceUIDAnnotation = "demo.example.com/source-uid"

// auditor writes a record of every deleted app.
type auditor struct {
	namespace  string
	configMaps corev1client.ConfigMapsGetter
	namespaces corev1client.NamespacesGetter
}

// ensureRecord writes the record unless it is there, and returns its namespace
// and name when it was this call that wrote it. The name is made from the time
// of the deletion, so that a repeated call finds the first one's record.
func (a *auditor) ensureRecord(ctx context.Context, app *v1alpha1.DemoApp) (written string, err error) {
	record, err := desiredRecord(app, a.namespace)
	if err != nil {
		return "", err
	}
	written, err = a.create(ctx, record)
	if !apierrors.IsAlreadyExists(err) {
		return written, err
	}
	existing, err := a.configMaps.ConfigMaps(a.namespace).Get(ctx, record.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read audit record %s/%s: %w", a.namespace, record.Name, err)
	}
	if existing.Annotations[sourceUIDAnnotation] == string(app.UID) {
		return "", nil
	}
	// Another DemoApp that ended in the same second has the same name: "a-b" in
	// "c" and "b" in "c-a", or one that was made again at once.
	record.Name = shortenedName(record.Name, string(app.UID), "")
	written, err = a.create(ctx, record)
	if apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	return written, err
}

// create writes a record, and the namespace first if that is missing.
func (a *auditor) create(ctx context.Context, record *corev1.ConfigMap) (written string, err error) {
	created, err := a.configMaps.ConfigMaps(a.namespace).Create(ctx, record, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		if err := a.ensureNamespace(ctx); err != nil {
			return "", err
		}
		created, err = a.configMaps.ConfigMaps(a.namespace).Create(ctx, record, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return "", fmt.Errorf("write audit record %s/%s: %w", a.namespace, record.Name, err)
	}
	return created.Namespace + "/" + created.Name, nil
}

func (a *auditor) ensureNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	_, err := a.namespaces.Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create audit namespace %s: %w", a.namespace, err)
	}
	return nil
}

// desiredRecord is the audit record of a deleted app. It holds no secret.
func desiredRecord(app *v1alpha1.DemoApp, namespace string) (*corev1.ConfigMap, error) {
	spec := app.Spec.DeepCopy()
	if spec.APIKey != "" {
		spec.APIKey = redacted
	}
	specJSON, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("audit record of the spec: %w", err)
	}
	status := app.Status.DeepCopy()
	for i := range status.Conditions {
		// Nothing else in a status is somebody else's text.
		status.Conditions[i].Message = redact([]string{app.Spec.APIKey}, status.Conditions[i].Message)
	}
	statusJSON, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("audit record of the status: %w", err)
	}
	deletedAt := app.DeletionTimestamp.Time
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        recordName(app.Namespace, app.Name, deletedAt),
			Annotations: map[string]string{sourceUIDAnnotation: string(app.UID)},
			Labels: map[string]string{
				v1alpha1.LabelSourceNamespace: app.Namespace,
				v1alpha1.LabelSourceName:      app.Name,
			},
		},
		Data: map[string]string{
			auditDeletedAt: deletedAt.UTC().Format(time.RFC3339),
			auditSpec:      string(specJSON),
			auditStatus:    string(statusJSON),
		},
	}, nil
}

// recordName is <namespace>-<name>-<unix seconds>. Where that is longer than the
// name of an object may be, a hash takes the place of what is cut off.
func recordName(namespace, name string, deletedAt time.Time) string {
	suffix := fmt.Sprintf("-%d", deletedAt.Unix())
	full := namespace + "-" + name
	if len(full)+len(suffix) <= validation.DNS1123SubdomainMaxLength {
		return full + suffix
	}
	return shortenedName(full, namespace+"/"+name, suffix)
}

// shortenedName is the name, cut to what fits, a hash of the identity, and the
// suffix.
func shortenedName(name, identity, suffix string) string {
	sum := sha256.Sum256([]byte(identity))
	suffix = "-" + hex.EncodeToString(sum[:5]) + suffix
	fits := min(len(name), validation.DNS1123SubdomainMaxLength-len(suffix))
	return strings.TrimRight(name[:fits], "-.") + suffix
}
