// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demoapp-controller runs the operator: see package app for its flags and the order in
// which it starts and stops.
package main
