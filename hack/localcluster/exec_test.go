// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// serveUntilEnd is an instance that reports ready at once.
func serveUntilEnd(ctx context.Context, ready io.Writer) error {
	if _, err := fmt.Fprintln(ready, `{"name":"a"}`); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func TestRunWithinHandsOverConnection(t *testing.T) {
	var got string
	err := (&up{}).runWithin(t.Context(), serveUntilEnd, func(_ context.Context, connection string) error {
		got = connection
		return nil
	})
	if err != nil || got != `{"name":"a"}` {
		t.Errorf("got connection %q and error %v", got, err)
	}
}

func TestRunWithinReturnsErrorOfWork(t *testing.T) {
	failure := errors.New("tests failed")
	err := (&up{}).runWithin(t.Context(), serveUntilEnd, func(context.Context, string) error { return failure })
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
}

func TestRunWithinEndsWorkWhenInstanceFails(t *testing.T) {
	failure := errors.New("etcd ended")
	working := make(chan struct{})
	serve := func(_ context.Context, ready io.Writer) error {
		if _, err := fmt.Fprintln(ready, `{}`); err != nil {
			return err
		}
		<-working
		return failure
	}
	err := (&up{}).runWithin(t.Context(), serve, func(ctx context.Context, _ string) error {
		close(working)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
}

func TestRunWithinFailsWhenInstanceDoesNotStart(t *testing.T) {
	failure := errors.New("no free port")
	err := (&up{}).runWithin(t.Context(), func(context.Context, io.Writer) error { return failure },
		func(context.Context, string) error {
			t.Error("the work ran without an instance")
			return nil
		})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
}

func TestRunWithinEndsStartOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	serve := func(ctx context.Context, _ io.Writer) error {
		cancel()
		<-ctx.Done()
		return nil
	}
	err := (&up{}).runWithin(ctx, serve, func(context.Context, string) error {
		t.Error("the work ran after the end of the context")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
