// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint sends requests to an HTTP server that the user of the operator
// names by a URL template.
//
// The server and the network are not trusted. Each request has a timeout, and the size
// of a response is bounded. A redirect to another host, or to another method, is an
// error. The number of concurrent requests is bounded, and so is the share of a
// namespace.
//
// Messages contain neither the response body nor the URL, because the URL may hold a
// secret. Equal failures have equal messages, so that a retry does not change a status.
package endpoint
