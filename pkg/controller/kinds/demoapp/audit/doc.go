// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit writes records of deleted objects: one ConfigMap per object, all in one namespace.
// It depends on no kind.
//
// # Bounds
//
// Tenants choose the size and the number of the objects that they delete, so the records are
// bounded:
//
//   - A record has at most [MaxRecordBytes] bytes. Larger contents are replaced by their SHA-256
//     digest and their size.
//   - A source namespace has at most [MaxWholeRecords] records with contents. Further records hold
//     digests and sizes only.
//   - A source namespace has at most [MaxRecords] records. Beyond that, records without contents
//     are removed, the oldest first. Many deletions therefore do not remove a record with contents.
//   - Records older than the retention are removed.
//
// # Requests
//
// Writing a record takes one request. Counting records takes none, because an informer watches
// their metadata. A record is counted when the informer has received it, so a burst of deletions
// may exceed a limit by a few records. Records are removed in sweeps. Sweeps run on the leader
// only, and send no request if there is no record to remove.
package audit
