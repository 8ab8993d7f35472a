// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release is the lifecycle of a Helm release that belongs to an object of any
// kind. It covers install, upgrade, drift correction, remediation and uninstall, and the
// status that reports them with their reasons.
//
// A kind implements a [Binding], which returns the desired state ([Desired]) and the
// release's status, and chooses [Options]: gates, the rollout, [Sources] of values, and the objects
// that a change waits for ([Dependencies]). [NewLoop] makes its controller. A pass gathers, decides,
// acts and reports:
//
//	gather   binding.Desired and the annotations become Facts, which stay constant
//	decide   assess: observe the release, judge its health, remediate failed attempts (Plan);
//	         then the gates, the drift policy and suspend
//	act      write what must be visible first, execute the Decision, and assess again
//	report   write the status, or the classified error (classify)
//
// Deciding functions are pure: they take [Facts], a [Plan] and a status, and return a new
// Plan or a verdict. The [Lifecycle] keeps further state in memory only: refused attempts
// and explained drift. This state may be lost.
package release
