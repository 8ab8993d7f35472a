// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import "context"

type (
	waitKey struct{}
	stopKey struct{}
)

// WithStop returns a context for [Engine.Execute]. When stop is done, a rendering ends with
// [ErrStopped]. An operation that has rendered its chart is not ended.
func WithStop(ctx, stop context.Context) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// stopping returns the context of WithStop, or a context that does not end.
func stopping(ctx context.Context) context.Context {
	if stop, ok := ctx.Value(stopKey{}).(context.Context); ok {
		return stop
	}
	return context.Background()
}

// WithWait returns a context for [Engine.Execute] and [Engine.Uninstall]. Before an operation waits
// for a hook, a new CRD or a deleted object, it calls begin with the names of the objects, and after
// the wait it calls the end that begin returned. The caller can do other work in between. When begin
// fails, the operation fails with that error.
func WithWait(ctx context.Context, begin func(objects string) (end func(), err error)) context.Context {
	return context.WithValue(ctx, waitKey{}, begin)
}

// beginWait notifies the caller that the operation is about to wait for objects. It records the
// error, because Helm reduces errors of hooks to text.
func (o *operation) beginWait(objects string) (end func(), err error) {
	begin, ok := o.ctx.Value(waitKey{}).(func(string) (func(), error))
	if !ok {
		return func() {}, nil
	}
	end, err = begin(objects)
	return end, o.note(err)
}

// slowWait notifies the caller of a wait, unless the wait ends immediately.
type slowWait struct {
	operation *operation
	// objects are the names of the objects.
	objects string
	// refused is the caller's error if the operation may not wait.
	refused error
	ended   func()
}

func (s *slowWait) begin() error {
	if s.ended == nil && s.refused == nil {
		s.ended, s.refused = s.operation.beginWait(s.objects)
	}
	return s.refused
}

func (s *slowWait) end() {
	if s.ended != nil {
		s.ended()
	}
}
