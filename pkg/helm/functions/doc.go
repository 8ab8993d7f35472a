// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package functions bounds the template functions of Helm in time and memory. The bounds apply to
// one [Rendering]:
//
//   - functions that produce a number of items or bytes, such as until and repeat: 100,000 items and
//     10 MiB;
//   - functions that hash passwords or generate keys, such as htpasswd and genCA: a budget of 10
//     seconds of a processor, counted by calls and not measured;
//   - all functions: 30 seconds in total. A template ends at its next function call.
//
// text/template cannot be interrupted between two function calls. Nested loops without any call
// therefore run to their end.
package functions
