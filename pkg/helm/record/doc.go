// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record decodes, encodes, indexes and caches Helm's release records: one Secret for each
// revision of a release. Package helm writes them.
//
// Every client that may edit Secrets in a namespace can write records. So the size and the number
// of values of a record are bounded before it is decoded ([Decode]), and its content counts only if
// it matches the [Digest] that was taken when the revision was recorded ([Matches]).
//
// An [Index] watches the metadata of all records. A [Record] has the metadata of a revision: its
// status, its owner, and the inputs that it was made from. A [Cache] has the content of the records
// that were used last. The records of a chart share the chart, in the cache and in the [Codec].
package record
