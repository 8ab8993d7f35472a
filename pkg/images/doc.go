// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images has the container images that the operator itself names: images of databases,
// caches and dumps, and the defaults of fields. A [Table] says where they are pulled from, so that
// a cluster can use a mirror of Docker Hub, or digests. It sends no requests.
//
// An image that a user names in a field is not one of these, and is used as it is written, unless
// it is the default of the field.
package images
