// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health computes the health of an object, by the rules of kstatus with a few exceptions, and
// how an object has ended. It says why a pod is not ready, or cannot be created.
package health
