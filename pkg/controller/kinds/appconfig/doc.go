// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package appconfig keeps AppConfigs: a ConfigMap with rendered templates. It rolls the workloads
// that use the ConfigMap and ask for that by a label, when the content changes.
//
// render.go merges the values and renders the templates, with package sandbox. Package reload
// watches and rolls the workloads.
package appconfig
