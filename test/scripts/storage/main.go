// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command storage is an S3 server with the bucket "backups", which keeps objects in memory. It listens on port 9000. Tests run it in
// a pod.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	backend := s3mem.New()
	err := backend.CreateBucket("backups")
	if err == nil {
		server := &http.Server{Addr: ":9000", Handler: gofakes3.New(backend).Server(), ReadHeaderTimeout: time.Minute}
		err = server.ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
