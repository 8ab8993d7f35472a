// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves admission webhooks over HTTPS.
//
// A Handler is a pure function from an admission request to a Response. The Server owns the
// protocol: TLS, limits on size and time, the decoding of AdmissionReviews, and the answer to a
// panic. If the server cannot review a request, it answers with an HTTP error, and never allows the
// object. The API server then applies the failurePolicy of the webhook configuration.
//
// Package certificates issues serving certificates with its own certificate authority. Package
// serving reads certificates from files.
package webhook
