// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release assembles the files of a release from the binaries, the image, the manifest and the chart, and writes
// checksums.txt. Binaries have to be of one commit without changes. The same commit always gives the same checksums.
//
// The output directory gets, for version v1.2.3:
//
//	demoapp-controller-v1.2.3-<os>-<arch>            the operator
//	demoapp-controller-v1.2.3-<os>-<arch>.spdx.json  its bill of materials
//	demoapp-controller-v1.2.3-image.tar              the image of all platforms, an OCI archive
//	demoapp-controller-v1.2.3-image-linux-<arch>.spdx.json
//	demoapp-controller-1.2.3.tgz                     the Helm chart, with the versions of the release and the digest of its image
//	install.yaml                                     all manifests, with the image of the release by its digest
//	image-digest.txt                                 the reference of the image by its digest
//	checksums.txt                                    the SHA-256 of all other files, for "sha256sum --check"
package main
