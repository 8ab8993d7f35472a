// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release is the lifecycle of a Helm release that belongs to an object of any kind:
// install, upgrade, drift correction, remediation, uninstall, and the status that says why
// something happened.
//
// A kind states in a [Binding] what the object asks for ([Desired]) and where the release's
// status is. [Steps] makes of it the steps of a [kind.Kind]. A pass gathers, decides, acts
// and reports:
//
//	gather   binding.Desired and the annotations become Facts, which do not change any more
//	decide   look: observe the release, judge its health, remediate failed attempts (Plan);
//	         then the gates, the drift policy and suspend
//	act      announce what has to be visible first, execute the Decision, and look again
//	report   the status, or what became of an error (classify)
//
// Deciding functions are pure: [Facts], a [Plan] and a status go in, and a new Plan or a
// verdict comes out. What is remembered between passes and is not worth a place in the
// status (refused attempts, explained drift) lives in the [Lifecycle], and may be lost.
package release
