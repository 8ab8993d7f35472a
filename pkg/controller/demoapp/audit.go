// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/audit"
	"github.com/example/demoapp-controller/pkg/controller/redact"
)

// The sections of an audit record.
const (
	auditSpec   = "spec"
	auditStatus = "status"
)

// AuditKeys are the keys of the labels and annotations of audit records.
func AuditKeys() audit.Keys {
	return audit.Keys{
		SourceNamespace: v1alpha1.LabelSourceNamespace,
		SourceName:      v1alpha1.LabelSourceName,
		SourceUID:       v1alpha1.AnnotationSourceUID,
		Detail:          v1alpha1.AnnotationAuditDetail,
	}
}

// auditRecord is the audit record of a deleted app. It holds no secret.
func auditRecord(app *v1alpha1.DemoApp) audit.Record {
	spec := app.Spec.DeepCopy()
	if spec.APIKey != "" {
		spec.APIKey = redact.Mark
	}
	status := app.Status.DeepCopy()
	for i := range status.Conditions {
		// Only messages of conditions repeat text that may hold the key.
		status.Conditions[i].Message = redact.Text([]string{app.Spec.APIKey}, status.Conditions[i].Message)
	}
	return audit.Record{
		Namespace: app.Namespace, Name: app.Name, UID: app.UID,
		DeletedAt: app.DeletionTimestamp.Time,
		Sections:  map[string]any{auditSpec: spec, auditStatus: status},
	}
}
