// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawjson reads JSON without decoding it. Tenants choose the size of their objects, and
// a decoded document can take 70 times the memory of its text. So a document is measured and
// cut as text first.
//
// All documents must be valid JSON, like the documents of the API server.
package rawjson
