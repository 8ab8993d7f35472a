// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The fields of the log lines of a pass. No line has further fields of these names, see
// docs/logging.md.
const (
	fieldController  = "controller"
	fieldObject      = "object"
	fieldGeneration  = "generation"
	fieldReconcileID = "reconcileID"
	fieldReason      = "reason"
)

// passLogger returns a logger with the fields of a pass, except the generation.
func passLogger(ctx context.Context, key cache.ObjectName, why Reason) klog.Logger {
	return klog.LoggerWithValues(klog.FromContext(ctx),
		fieldObject, klog.KRef(key.Namespace, key.Name), fieldReconcileID, newReconcileID(), fieldReason, why)
}

// LogGeneration returns a context whose logger also has the generation of the object. A
// reconciler calls it as soon as it has read the object, with 0 if the object is gone.
// The lines of the worker after the pass then have the generation, too.
//
// Outside of a pass, LogGeneration only adds the field.
func LogGeneration(ctx context.Context, generation int64) context.Context {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		s.generation = generation
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), fieldGeneration, generation)
	logger.V(4).Info("Reconciling")
	return klog.NewContext(ctx, logger)
}

// newReconcileID returns the identifier of a pass. It distinguishes the passes over one object, so
// 32 bits suffice.
func newReconcileID() string {
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], rand.Uint32()) //nolint:gosec // The identifier is no secret.
	return hex.EncodeToString(id[:])
}

// maxFrames is the number of callers in the stack of a panic.
const maxFrames = 16

// panicStack returns the callers of a panic in one line, the innermost first. A deferred
// function that recovers calls it.
func panicStack() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	var names []string
	for more := true; more && len(names) < maxFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if len(names) > 0 || !strings.HasPrefix(frame.Function, "runtime.") {
			names = append(names, fmt.Sprintf("%s %s:%d", path.Base(frame.Function), path.Base(frame.File), frame.Line))
		}
	}
	return strings.Join(names, ", ")
}
