// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package synctestmain has the TestMain of packages that test with testing/synctest.
package synctestmain

import (
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Run runs the tests of a package whose bubbles report errors with client-go, as informers do. It
// removes the rate limit of these reports (k8s.io/apimachinery/pkg/util/runtime). All bubbles share
// the limit. If the last report of the process has a later time than the clock of the bubble, the
// next one sleeps for the difference. Before the first report, that is a quarter of a century.
func Run(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // It is what the variable is for.
	m.Run()
}
