// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command license is the license server of docs/tour.md. It denies a license while the folder in
// the argument has a file with the license's path, and grants every other license. It listens on a
// free port, and prints its URL.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	denied, err := os.OpenRoot(os.Args[1])
	exitOn(err)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	exitOn(err)
	fmt.Printf("http://%s\n", listener.Addr())
	server := http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := denied.Stat(r.URL.Path[1:]); err == nil {
			w.WriteHeader(http.StatusForbidden)
		}
	})}
	exitOn(server.Serve(listener))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
