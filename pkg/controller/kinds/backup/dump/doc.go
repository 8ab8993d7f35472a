// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump builds the pods that dump a database into a bucket, and explains failures of such a
// pod. The pods run the files in scripts, and upload with rclone (https://rclone.org).
package dump
