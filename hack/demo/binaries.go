// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
)

// buildBinariesCommand builds the programs of a control plane, kubectl among them, and prints their folder.
const buildBinariesCommand = "go -C hack/localcluster run . build"

// binaries is a build of the control plane's programs that goes on while the operator is built.
type binaries struct {
	cancel context.CancelFunc
	// done is closed when the build has ended; folder and err are set by then.
	done   chan struct{}
	folder string
	err    error
}

// startBinaries starts the build. The progress goes to standard error.
func startBinaries(ctx context.Context) *binaries {
	ctx, cancel := context.WithCancel(ctx)
	b := &binaries{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		cmd := posixShell{env: os.Environ()}.command(ctx, buildBinariesCommand)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			b.err = fmt.Errorf("build the control plane: %w", err)
		}
		b.folder = strings.TrimSpace(stdout.String())
	}()
	return b
}

// wait returns the folder of the programs when the build has ended.
func (b *binaries) wait() (string, error) {
	<-b.done
	return b.folder, b.err
}

// stop ends the build, if it has not ended, and waits for its end.
func (b *binaries) stop() {
	b.cancel()
	<-b.done
}
