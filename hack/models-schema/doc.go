// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the OpenAPI v2 schema of this project's kinds as
// JSON. applyconfiguration-gen puts it into the generated code, so that the fake
// clientset can do server-side apply.
package main
