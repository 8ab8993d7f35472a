// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack builds the container image of the operator from its binaries, and writes it to files and registries. The
// Dockerfile builds the same image with a container engine; a test compares both.
package pack
