// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui runs the page of kubectl demoapp ui in a headless Chromium, on a real API server with
// the operator: each view, its updates, axe's rules of accessibility in light and dark, a phone's
// width, and 1,000 objects. With UI_PICTURES=FOLDER, it draws the pictures of the documentation.
package ui
