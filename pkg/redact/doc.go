// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from texts of other components before a user or a log sees them.
//
// Errors from the API server, admission webhooks and Helm may quote the text of a request. A
// [Redactor] replaces the known secrets by [Mark], in the forms in which such errors write them. It
// also bounds a text and joins its lines.
package redact
