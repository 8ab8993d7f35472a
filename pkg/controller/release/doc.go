// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release is the step that kinds share which keep a Helm release: it
// gathers what the engine knows, decides whether the release is to change and
// why, and tells how its objects do. It knows no kind; what it returns is in
// the words of the condition reasons that all of them use.
//
// A kind's own package gathers the inputs (values, gates), calls [Observe],
// acts on the [Plan] with the engine, and writes its status:
//
//	plan, err := release.Observe(ctx, engine, release.Request{...})
//	...
//	deployed, err := engine.Execute(ctx, wanted, plan.Decision, baseline)
//	reason, terminal := release.FailureReason(err, plan.Decision.Action)
//	...
//	summary := release.Summarize(snapshot.Health)
package release
