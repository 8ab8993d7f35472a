// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts holds the Helm charts that are compiled into the operator.
//
// A chart is an ordinary folder beside this file, so that it can be rendered and linted with the helm CLI as it stands:
//
//	helm template demoapp-sample pkg/helm/charts/demo-app --set apiKey=verysecret
//
// The folders are embedded whole ("all:"). Without that prefix, go:embed leaves out files whose names begin with an
// underscore, and templates/_helpers.tpl with them.
//
// This package imports nothing but the standard library: it hands out file systems, and package helm makes charts of
// them.
package charts
