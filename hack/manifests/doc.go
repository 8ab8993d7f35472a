// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manifests generates the installation files:
//
//   - artifacts/install.yaml, which is the kustomize build of artifacts/deploy,
//   - the files of the Helm chart that are copies: CRDs, webhook configurations and monitoring,
//   - the table of values in the chart's README.md, from the comments of values.yaml.
//
// It runs in the root of the repository, from hack/update-codegen.sh.
package main
