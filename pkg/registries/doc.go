// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registries checks container images against a list of allowed registries.
// It sends no requests.
//
// Image names are normalized as container runtimes normalize them: nginx is
// docker.io/library/nginx, and team/web is docker.io/team/web. Port 443 is the same as no
// port, and the hosts of Docker Hub are one. An entry of the list
// is a host, or a host and a path prefix. A prefix matches whole path segments:
// registry.example.com/team allows registry.example.com/team/web, and not
// registry.example.com/teamwork/web.
package registries
