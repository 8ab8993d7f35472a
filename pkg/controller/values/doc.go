// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values puts together the values of a chart that an object names: keys of
// ConfigMaps and Secrets, and values in the object itself.
//
// [Sources] read single keys of ConfigMaps and Secrets whose metadata is watched, so that
// an object is read only when it has changed, and never kept whole. [Sources.Collect]
// parses and merges what valuesFrom and values bring. Every size is bounded before it is
// parsed, over all sources of one object together.
package values
