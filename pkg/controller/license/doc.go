// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package license asks an HTTP server whether something may be installed or
// upgraded. The status code is the answer: 200 is yes, 4xx is no, and everything
// else, including no answer, is none that can be used.
//
// The server is not trusted, and neither is the network. A request has a
// deadline, an answer a size, and a redirect must stay with the host; only a few
// requests are under way at a time, and a server that does not answer is left
// alone for a while, so that it cannot hold up other work. What the server says
// never gets into a message, nor does the URL, which may hold a secret.
package license
