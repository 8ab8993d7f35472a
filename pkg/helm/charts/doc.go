// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts holds the Helm charts that are compiled into the operator.
//
// A chart is an ordinary folder in the folder of this file. The helm CLI can therefore render and lint it:
//
//	helm template demoapp-sample pkg/helm/charts/demo-app --set apiKey=verysecret
//
// The folders are embedded with the prefix "all:". Without the prefix, go:embed omits files whose
// names begin with an underscore, for example templates/_helpers.tpl.
//
// This package imports only the standard library. It returns file systems, from which package helm
// loads charts.
package charts
