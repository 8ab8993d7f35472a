// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component starts the components of one owner in order.
//
// A [Component] is a group of children, for example a Deployment with its Service.
// [Ensure] applies the children of a component for the first time when all components
// before it are ready. After that the component has started, and stays: if a component
// becomes unhealthy later, the components after it keep running. Nothing but the children
// themselves records that a component has started, so a restart needs no further state.
//
// The watches of the children move the order: a component that becomes ready queues the
// owner. There are no timers.
package component
