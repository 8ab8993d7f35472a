// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql builds the children of a MySQL server: a StatefulSet of one pod, its
// Services, and the Secret with its credentials. The pod meets the restricted Pod Security
// profile.
package mysql
