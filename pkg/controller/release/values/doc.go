// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values collects the values of a chart for an object: from keys of ConfigMaps
// and Secrets, and from the object itself.
//
// [Sources] read single keys of ConfigMaps and Secrets, and watch their metadata. An
// object is read only after it has changed, and is never kept as a whole.
// [Sources.Collect] parses and merges the values of valuesFrom and values. Sizes are
// limited before parsing, over all sources of one object together.
package values
