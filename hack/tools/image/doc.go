// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image packs one static Linux binary into a container image, as a tarball
// that "docker load", "podman load", "ctr image import" and "crane push" take. It
// needs neither a container engine nor a base image: the image has one layer with
// one file. The same binary always gives the same image.
package main
