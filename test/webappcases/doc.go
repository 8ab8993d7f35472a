// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webappcases has the table of cases of the admission of WebApps, in cases.yaml. The cases
// are played against the pure functions of pkg/webhook/webapp, against the webhook on a real API
// server, and against the policies of artifacts/kinds/webapp/admission/policies.yaml and
// default-policies.yaml on a real API server. So all three agree.
package webappcases
