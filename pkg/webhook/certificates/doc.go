// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates provides the serving certificates of webhooks.
//
// # Authority
//
// An Authority is a certificate authority of the operator. Its certificates and keys are in one
// Secret, which all replicas share. Any replica may write the Secret. The resourceVersion of the
// Secret decides which replica wins, and the other replicas use the written Secret.
//
// Certificates are renewed after two thirds of their lifetime: 90 days for the serving certificate,
// 365 days for a CA. A new CA is trusted before it is used. It is first added to the bundle in the
// Secret and in the webhook configurations, and signs only serving certificates that are due at
// least an hour later. The old CA stays in the bundle until it expires, which is after the end of
// each certificate that it has signed.
//
// The Authority watches the Secret and the webhook configurations, and restores the bundle
// (caBundle) in the configurations when it differs. Without changes, it sends no requests.
//
// Package serving has a source that reads a certificate and its key from a directory, for example a
// mounted Secret of cert-manager. In this case, cert-manager sets the caBundle.
package certificates
