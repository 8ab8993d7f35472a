// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component starts the components of one owner in order.
//
// A [Component] is a group of children, for example a Deployment with its Service. [Ensure] applies
// the children of a component for the first time when all components before it are ready. A started
// component keeps running: if a component becomes unhealthy later, the components after it are not
// stopped. Only the children record that a component has started, so a restart needs no further
// state.
//
// Watches of the children drive the order: a component that becomes ready queues the owner. There
// are no timers.
package component
