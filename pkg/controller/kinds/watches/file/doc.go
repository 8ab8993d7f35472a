// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package file reads watches.yaml, the file that says which chart is installed for the resources of
// which kind. It is the file of the Helm operators of operator-sdk and of
// operator-framework/helm-operator-plugins, with further fields. Files that were written for either
// are valid here.
//
// [Parse] is pure: it takes the content of a file and returns its entries, or all errors of the
// file, each with its line. It neither loads charts nor parses the paths of overrides; [Entry.At]
// gives the errors of such checks the same form. [Watcher] reads a file again when its content
// changes.
//
// # Trust
//
// The author of the file is trusted with the permissions of the operator. All sizes are limited,
// because a mistake must not stop the operator: the size of the file, its entries, its nodes, and
// the output of its templates. The authors of resources are not trusted. So [NameTemplate] and
// [ValuesTemplate] limit their output and their work for any resource. Values of overrides can come
// from Secrets. They are in no error, and an [Entry] that is logged does not show them.
//
// # Environment and templates of overrides
//
// Each value of overrideValues is expanded once, when the file is parsed, as upstream does it in
// expandOverrideValues of helm-operator-plugins, pkg/watches/watches.go: first by os.ExpandEnv,
// then as a Go template with the text functions of sprig and without data. The functions env and
// expandenv read the same environment. getHostByName does not exist, because the result of a file
// must not depend on the network.
package file
