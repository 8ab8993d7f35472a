// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webapp has the admission rules of the kind WebApp (example.com/v1) as pure functions.
//
// Validation: images come from an approved registry. In production namespaces, there are at most 10 replicas, and limits
// of CPU and memory are required. Mutation: labels get default values, and so does the security context in production
// namespaces. A value that is set is kept.
//
// An update that does not change the spec passes, so that a WebApp that breaks a newer rule can still be labeled,
// released by its finalizers and deleted.
//
// A namespace is a production namespace if it is named production or has the label environment: production. The API
// server decides that with the namespaceSelectors of the webhook configurations, and calls the path of the result. So the
// webhook needs neither a cache of namespaces nor the permission to read them, and cannot decide by an outdated label.
//
// The policies in artifacts/kinds/webapp/admission/policies.yaml have the same rules. The cases of test/webappcases hold that both
// agree.
package webapp
