// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps records of deleted objects: one ConfigMap per object, all in one namespace. It knows no kind.
//
// # Bounds
//
// Tenants decide how large their objects are and how many they delete, so everything here is bounded:
//
//   - A record has at most [MaxRecordBytes] bytes. What does not fit is replaced by its SHA-256 digest and its size.
//   - A source namespace has at most [MaxWholeRecords] records with contents. Further records hold digests and sizes only.
//   - A source namespace has at most [MaxRecords] records. Beyond that, records without contents are removed, the oldest
//     first. Many deletions therefore never push out a record with contents.
//   - Records older than the retention are removed.
//
// # Requests
//
// Writing a record takes one request. Counting takes none, because an informer watches the metadata of the records. A
// record that the informer has not seen yet is not counted, so that a burst of deletions may exceed a limit by a few.
// Records are removed in sweeps, which run on the leader only and send nothing while there is nothing to remove.
package audit
