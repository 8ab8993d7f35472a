// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp/audit"
	"github.com/example/demoapp-controller/pkg/redact"
)

// The sections of an audit record, and the entry that names the objects left by the uninstall.
const (
	auditSpec   = "spec"
	auditStatus = "status"
	auditLeft   = "left-behind"
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

// auditRecord returns the audit record of a deleted app, with the status in which the user
// deleted it. A later pass gets the record of the first one, because the status then says why
// the deletion waits.
func (c *Controller) auditRecord(app *v1alpha1.DemoApp) audit.Record {
	key := cache.MetaObjectToName(app)
	if first, ok := c.deleted.Get(key); ok && first.UID == app.UID {
		return first
	}
	record := auditRecord(app)
	c.deleted.Set(key, record)
	return record
}

// auditRecord is the audit record of a deleted app. It holds no secret. It leaves out reports of
// earlier processes about the deletion.
func auditRecord(app *v1alpha1.DemoApp) audit.Record {
	spec := app.Spec.DeepCopy()
	if spec.APIKey != "" {
		spec.APIKey = redact.Mark
	}
	status := app.Status.DeepCopy()
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == v1alpha1.ReasonAuditFailed || c.Reason == apimeta.ReasonFinalizerFailed
	})
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
