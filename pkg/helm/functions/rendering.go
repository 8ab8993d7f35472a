// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// MaxTime is the time of one rendering, without the waits for a [Turns] and for lookups.
const MaxTime = 30 * time.Second

// maxCost is the budget of one rendering for costly functions. It is counted from costs and not
// measured, so that the result depends on the chart and its values alone.
const maxCost = 10 * time.Second

// costs are the processor times of the costly functions, measured and rounded.
var costs = map[string]time.Duration{
	"bcrypt":            50 * time.Millisecond,
	"htpasswd":          50 * time.Millisecond,
	"derivePassword":    150 * time.Millisecond,
	"genCA":             150 * time.Millisecond,
	"genSelfSignedCert": 150 * time.Millisecond,
	"genSignedCert":     150 * time.Millisecond,
	"genPrivateKey":     time.Second,
}

var (
	// ErrTimeout means that a rendering took longer than MaxTime.
	ErrTimeout = fmt.Errorf("the templates took longer than %v: use smaller loops and fewer functions that hash, generate keys or search texts", MaxTime)
	// ErrStopped means that the rendering ended because the process stops. It wraps context.Canceled.
	ErrStopped = fmt.Errorf("the rendering was ended because the process stops: %w", context.Canceled)
)

// helmsOwn are the functions that Helm defines itself or removes. They are not replaced.
var helmsOwn = []string{"env", "expandenv", "getHostByName", "fail", "fromJson", "toJson", "mustToJson"}

// Rendering bounds the template functions of one rendering. Its zero value has no turn to wait for
// and does not stop. A rendering runs in one goroutine at a time.
type Rendering struct {
	// Begin waits for the turn of the rendering, and returns the function that ends the turn.
	// Optional.
	Begin func() (end func(), err error)
	// Stop ends the rendering when it is done. Optional.
	Stop context.Context

	items, bytes int
	cost, took   time.Duration

	mu sync.Mutex
	// began is the time of the first function call since the last pause, and end ends the turn.
	began time.Time
	end   func()
	err   error
}

// Err returns ErrTimeout, ErrStopped or the error of Begin if it ended the rendering. Helm reduces
// errors of functions to text.
func (r *Rendering) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Pause ends the turn of the rendering, at its end or during a wait. The next function call begins
// another one.
func (r *Rendering) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		return
	}
	r.took += time.Since(r.began)
	r.began = time.Time{}
	if r.end != nil {
		r.end()
	}
}

// call checks whether the rendering may call a function.
func (r *Rendering) call() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.check()
	}
	return r.err
}

func (r *Rendering) check() error {
	if r.Stop != nil && r.Stop.Err() != nil {
		return ErrStopped
	}
	if r.began.IsZero() {
		if r.Begin != nil {
			end, err := r.Begin()
			if err != nil {
				return err
			}
			r.end = end
		}
		r.began = time.Now()
	}
	if r.took+time.Since(r.began) > MaxTime {
		return ErrTimeout
	}
	return nil
}

// Functions returns replacements of template functions of Helm.
func (r *Rendering) Functions() template.FuncMap {
	functions := sprig.TxtFuncMap()
	for _, name := range helmsOwn {
		delete(functions, name)
	}
	functions["print"], functions["printf"], functions["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
	for name, function := range r.counted(functions) {
		functions[name] = function
	}
	for name, function := range functions {
		functions[name] = r.bounded(name, function)
	}
	return functions
}

// bounded returns a function of the same type that first checks and charges the rendering.
// text/template returns a panic of a function as its error.
func (r *Rendering) bounded(name string, function any) any {
	of, cost := reflect.ValueOf(function), costs[name]
	return reflect.MakeFunc(of.Type(), func(arguments []reflect.Value) []reflect.Value {
		if err := r.call(); err != nil {
			panic(err)
		}
		if err := r.charge(name, cost, arguments); err != nil {
			panic(err)
		}
		var results []reflect.Value
		if of.Type().IsVariadic() {
			results = of.CallSlice(arguments)
		} else {
			results = of.Call(arguments)
		}
		if text := results[0]; text.Kind() == reflect.String && text.Len() > maxRenderedBytes {
			panic(fmt.Errorf("%s: the result has %d bytes, more than the limit of %d: use shorter texts", name, text.Len(), maxRenderedBytes))
		}
		return results
	}).Interface()
}

// charge charges a call of a costly function. The keys of elliptic curves are cheap.
func (r *Rendering) charge(name string, cost time.Duration, arguments []reflect.Value) error {
	if name == "genPrivateKey" && !slices.Contains([]string{"", "rsa", "dsa"}, arguments[0].String()) {
		return nil
	}
	if r.cost += cost; r.cost > maxCost {
		return fmt.Errorf("%s: the functions that hash passwords and generate keys (%s) have used up their budget of %v for one rendering: "+
			"set hashes and keys as values, or take them from Secrets", name, strings.Join(costly(), ", "), maxCost)
	}
	return nil
}

// costly returns the names of the costly functions.
func costly() []string {
	var names []string
	for name := range costs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
