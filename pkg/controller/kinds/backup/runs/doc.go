// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runs observes the runs of CronJobs that are children: their Jobs, and why a Job failed.
package runs
