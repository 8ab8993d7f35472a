// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handover tests that the operator can be killed, stopped and replaced at any moment, also
// under load, and that no two leaders write. It also counts the requests of an operation. Its tests
// start their operators themselves, one test after another.
package handover
