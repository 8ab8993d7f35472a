// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the conditions, reasons, annotations and finalizers of custom
// resources that watches.yaml or a library drives. They are the same as for operator-sdk's
// helm-operator and operator-framework/helm-operator-plugins, so that custom resources written for
// either work unchanged.
package v1alpha1
