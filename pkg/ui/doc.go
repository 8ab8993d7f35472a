// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui serves the page of kubectl demoapp ui: the objects of the operator in a browser, live,
// with the permissions of one user. Package inspect has the data, so the page and the commands have
// one opinion. The page is static files without a build step; see the folder static.
//
// # Trust
//
// The server listens on loopback and has a random token, which the URL that [Server.URL] returns
// carries in its fragment. A browser does not send a fragment, so the token is in no log and no
// Referer. The page sends it as a header. A page of another origin cannot: it does not know the
// token, and a request with the header needs a preflight, which the server does not answer. There
// is no cookie, because a browser sends cookies to all ports of a host. The names in the Host
// header are checked, so a name that an attacker points to loopback reaches nothing.
//
// Whatever tenants write is untrusted. The server masks secrets, cuts texts, and replaces
// characters that change the order of a text. The page writes texts only as text nodes; its
// Content-Security-Policy forbids inline scripts and all sinks of HTML.
//
// # Live
//
// [inspect.Watch] follows all objects and keeps their summaries. A stream of server-sent events
// sends the changes since the last message, at most a few times a second, so a slow browser costs
// no memory. The stream of one object sends its whole page when something in its namespace changed.
package ui
