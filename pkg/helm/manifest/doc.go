// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads and writes the output of a chart: the text of a manifest, its documents
// and their objects.
//
// [Parse] bounds a manifest before it is parsed, because parsing takes the memory that the limits
// protect: 10 MiB, 10,000 objects, 1,000,000 YAML nodes in all and 200,000 in a document.
// [CheckMetadata] returns the parts that cannot be applied. [Owners] makes an owner the controller
// of the objects, and keeps the rest of the text as the chart wrote it.
package manifest
