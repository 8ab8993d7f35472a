// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect reads the state of the operator's objects with the permissions of one user. It
// is the data behind the commands and the page of the kubectl plugin, and needs no access to the
// operator's pod. Only [Cluster.Do], [Cluster.DoTo] and [Cluster.WriteSpec] write, for a user who
// has confirmed the change.
//
// [Cluster] reads the API server. [Cluster.Kinds] learns from the API server which kinds the
// operator serves. [Offline] needs files alone. Conditions and kstatus decide whether an object is ready; package inspect has
// no opinion of its own.
package inspect
