// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image packs static Linux binaries into a container image with one platform per binary,
// and assembles the files of a release. It needs neither a container engine nor a base image. The
// same binaries always give the same digests and checksums. docs/release.md lists the files that it
// writes.
//
//	image pack          builds an image, as an OCI layout and as archives
//	image push          pushes an OCI layout to a registry
//	image release       adds the binaries, the manifest and the chart, which name the image by its digest
//	image certificates  prints the root certificates, for the Dockerfile
//
// An image has two layers: the root certificates, and the binary. Each platform has a bill of
// materials (SPDX 2.3), which is read from the build information of the binary and refers to the
// image of the platform (an OCI referrer). The Dockerfile builds the same image with a container
// engine; a test compares both.
package main
