// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import "github.com/example/demoapp-controller/pkg/health"

// Health is the health of an object. See [health.Health].
type Health = health.Health

// End is the result of an object that has ended by itself. See [health.End].
type End = health.End

// ObjectHealth is the health of one object of a release.
type ObjectHealth struct {
	Object ObjectReference
	Health
}
