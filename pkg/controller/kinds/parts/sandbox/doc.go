// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox renders Go templates of tenants, or templates over data of tenants. Templates can
// access only their data, in bounded time and memory.
//
// text/template cannot be interrupted, so the work is bounded by construction:
//
//   - Only a range can repeat work, because define, block and template are refused. The parsed
//     range gets a first action that charges a meter for one iteration of its body. Nested and
//     endless loops therefore end with an error.
//   - The functions are a fixed list. They read no file, no environment variable and no network.
//     Each function charges the meter for the bytes that it reads and produces, and checks the size
//     of a large result before it produces the result.
//   - The output is limited while it is written.
//
// The meter covers all templates of one rendering.
//
// [Render] returns texts. [RenderDocument] is for YAML: it keeps the values apart from the text of
// the template, so that the YAML can be parsed before the values are inserted.
package sandbox
