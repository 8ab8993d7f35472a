// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload builds the apply configurations of pods, and of the Deployments and
// Services around them. Its pods meet the restricted Pod Security profile
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted).
package workload
