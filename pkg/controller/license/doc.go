// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package license asks an HTTP server for permission to install or upgrade an app.
// The status code is the answer: 200 grants the license, and 4xx denies it, except
// 408 and 429. After any other answer, or none, the license is unavailable.
//
// The server and the network are not trusted. Each request has a timeout, the size
// of a response is bounded, and a redirect to another host is an error. The number
// of concurrent requests is bounded. After a failed connection, the client sends no
// request for a while, so that a broken server does not block other work.
//
// Messages contain neither the response body nor the URL, because the URL may hold
// a secret.
package license
