// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registries tells whether a container image comes from a registry that
// is allowed. It is pure: no registry is asked.
//
// An image is read as container runtimes read it: nginx is
// docker.io/library/nginx, and team/web is docker.io/team/web. What is allowed
// is a host, or a host and the beginning of a path, which ends where a part of
// the path ends: registry.example.com/team allows registry.example.com/team/web,
// and not registry.example.com/teamwork/web.
package registries
