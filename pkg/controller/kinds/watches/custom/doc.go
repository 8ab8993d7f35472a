// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package custom has custom resources with a release whose kind is known only at run time:
// their type, their status next to fields of other field managers, and their informers. Their
// content stays JSON text, because tenants choose its size.
package custom
