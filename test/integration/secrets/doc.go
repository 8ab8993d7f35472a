// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secrets gives secrets to every kind, in each place that takes one, and makes every kind
// fail. It then searches all that the operator wrote for the secrets.
package secrets
