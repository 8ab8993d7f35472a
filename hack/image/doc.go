// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image packs static Linux binaries into a container image with one platform per binary. It needs neither a
// container engine nor a base image.
//
// An image has two layers: the root certificates in /etc/ssl/certs/ca-certificates.crt, and the binary. Each platform has
// a bill of materials (SPDX 2.3), which is read from the build information of the binary and refers to the image of the
// platform (an OCI referrer). The same binaries always give the same digests.
//
// The output directory gets:
//
//	oci/                  an OCI layout with the index of all platforms and the bills of materials
//	oci.tar               the same as one file, for example for "ctr image import" and "skopeo copy oci-archive:"
//	docker-<arch>.tar     the image of one platform, for "docker load"
//	sbom-<arch>.spdx.json the bill of materials of one platform
//	digest                the digest of the index
//
// With --push, the index and the bills of materials are pushed to a registry, with the credentials of "docker login".
package main
