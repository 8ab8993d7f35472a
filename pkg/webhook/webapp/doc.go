// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webapp has the admission rules of the kind WebApp (example.com/v1) as pure functions.
//
// Validation: images come from an approved registry. In production namespaces, there are at most 10
// replicas, and limits of CPU and memory are required. Mutation: labels get default values, and so
// does the security context in production namespaces. Existing values are kept.
//
// An update that does not change the spec is allowed. So a WebApp that breaks a newer rule can
// still be labeled and deleted, and its finalizers can be removed.
//
// A namespace is a production namespace if it is named production or has the label environment:
// production. The API server evaluates this rule with the namespaceSelectors of the webhook
// configurations, and calls a different path for production. So the webhook needs neither a cache
// of namespaces nor the permission to read them, and never uses an outdated label.
//
// The policies in artifacts/kinds/webapp/admission/policies.yaml and default-policies.yaml have the
// same rules. Both must pass the cases of test/webappcases.
package webapp
