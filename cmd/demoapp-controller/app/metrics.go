// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/pkg/operator"
)

// RegisterMetrics registers all metrics that the program can have, with all kinds and features
// turned on. It is for the reference of the metrics. It needs no API server.
func RegisterMetrics(registry prometheus.Registerer) error {
	folder, err := os.MkdirTemp("", programName)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	options := NewOptions()
	options.WatchesFile = filepath.Join(folder, "watches.yaml")
	if err := os.WriteFile(options.WatchesFile, []byte("[]\n"), 0o600); err != nil {
		return fmt.Errorf("write a watches file without kinds: %w", err)
	}
	options.BlockedImages = []string{"nginx"}
	options.Admission.BindAddress = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registered, err := kinds(ctx, options)
	if err != nil {
		return err
	}
	return operator.RegisterMetrics(registry, options.Options, registered...)
}
