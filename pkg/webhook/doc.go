// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves admission webhooks over HTTPS.
//
// A Handler is a pure function from an admission request to a Response. The Server owns the protocol: TLS, limits on size
// and time, the decoding of AdmissionReviews, and the answer to a panic. A request that the server cannot review gets an
// HTTP error, and never an answer that allows the object. The failurePolicy of the webhook configuration then decides.
//
// Package certificates has a source of serving certificates with an own certificate authority. Package serving has one
// from files.
package webhook
