// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package license asks an HTTP server for permission to install or upgrade an app.
// The status code is the answer: 200 grants the license, and 4xx denies it, except
// 408 and 429. After any other answer, or none, the license is unavailable.
//
// Package endpoint sends the requests and bounds them. Equal questions share a request,
// and answers are cached. After a failed connection, the client sends no request for a
// while. A question holds no worker, so that a slow server does not block other work.
package license
