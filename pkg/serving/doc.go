// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving has the common parts of the HTTPS servers of a process: sources of serving
// certificates ([Files] and [SelfSigned]), the parts of new certificates ([NewKey], [NewTemplate]
// and [Sign]), a CA with the certificate of a server ([Material]), and limits on connections
// ([Limit]).
package serving
