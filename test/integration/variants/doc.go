// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package variants tests the operator with other permissions and in other surroundings: some
// namespaces, impersonation, secure metrics, missing CRDs, an API server that is away, namespaces
// that freeze or vanish. Its tests start their operators themselves, one test after another.
package variants
