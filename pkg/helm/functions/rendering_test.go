// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"context"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"

	"github.com/example/demoapp-controller/test/expect"
)

func (r *Rendering) execute(t *testing.T, text string, more template.FuncMap) error {
	t.Helper()
	parsed, err := template.New("").Funcs(r.Functions()).Funcs(more).Parse(text)
	expect.NoError(t, err)
	return parsed.Execute(io.Discard, nil)
}

// TestBudget: costly functions are refused by the number of their calls, whatever they took.
func TestBudget(t *testing.T) {
	tests := map[string]struct {
		function, argument string
		used               time.Duration
		says               []string
	}{
		"the first hash":       {function: "bcrypt"},
		"a hash too many":      {function: "bcrypt", used: maxCost, says: []string{"bcrypt", "htpasswd", "10s", "set hashes and keys as values"}},
		"a password":           {function: "htpasswd", used: maxCost, says: []string{"htpasswd", "budget"}},
		"a derived password":   {function: "derivePassword", used: maxCost, says: []string{"derivePassword", "budget"}},
		"a certificate":        {function: "genCA", used: maxCost, says: []string{"genCA", "budget"}},
		"an RSA key":           {function: "genPrivateKey", argument: "rsa", used: maxCost, says: []string{"genPrivateKey", "budget"}},
		"an elliptic key":      {function: "genPrivateKey", argument: "ed25519", used: maxCost},
		"a certificate of one": {function: "genCAWithKey", used: maxCost},
		"any other function":   {function: "upper", used: maxCost},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Rendering{cost: test.used}

			err := r.charge(test.function, costs[test.function], valuesOf(test.argument))

			if len(test.says) == 0 {
				expect.NoError(t, err)
				return
			}
			if err == nil {
				t.Fatal("the budget is not held")
			}
			expect.Contains(t, "error", err.Error(), test.says...)
		})
	}
}

// TestManyPasswords: a template that hashes 3,000 passwords ends with an error that names the
// function, without the time of all these hashes.
func TestManyPasswords(t *testing.T) {
	r := &Rendering{cost: maxCost - 3*costs["htpasswd"]}

	err := r.execute(t, `{{ range until 3000 }}{{ htpasswd "a" "b" }}{{ end }}`, nil)

	if err == nil {
		t.Fatal("the budget is not held")
	}
	expect.Contains(t, "error", err.Error(), "htpasswd", "budget of 10s")
	expect.NoError(t, r.Err()) // The chart is wrong, and a retry does not help.
}

// TestTime: a rendering ends at its next function call after MaxTime, without the time of pauses.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Rendering{}
		steps := template.FuncMap{
			"work": func() string { time.Sleep(time.Second); return "" },
			"wait": func() string { r.Pause(); time.Sleep(time.Hour); return "" },
		}
		const loop = `{{ range until 29 }}{{ work }}{{ end }}{{ wait }}{{ upper "a" }}`
		expect.NoError(t, r.execute(t, loop, steps))
		begun := time.Now()

		err := r.execute(t, `{{ range until 100 }}{{ work }}{{ upper "a" }}{{ end }}`, steps)

		if !errors.Is(err, ErrTimeout) || !errors.Is(r.Err(), ErrTimeout) {
			t.Errorf("error is %v and %v, want %v", err, r.Err(), ErrTimeout)
		}
		expect.Equal(t, "time", 2*time.Second, time.Since(begun))
	})
}

// TestStop: a process that stops ends a rendering at its next function call.
func TestStop(t *testing.T) {
	stop, cancel := context.WithCancel(t.Context())
	r := &Rendering{Stop: stop}

	err := r.execute(t, `{{ upper "a" }}{{ stop }}{{ range until 3000 }}{{ htpasswd "a" "b" }}{{ end }}`,
		template.FuncMap{"stop": func() string { cancel(); return "" }})

	if !errors.Is(err, ErrStopped) || !errors.Is(r.Err(), ErrStopped) {
		t.Errorf("error is %v and %v, want %v", err, r.Err(), ErrStopped)
	}
}

// TestGrowingText: a text that doubles ends before it uses up the memory.
func TestGrowingText(t *testing.T) {
	for _, function := range []string{"print", "cat", `printf "%s%s"`} {
		err := new(Rendering).execute(t, `{{ $a := "a" }}{{ range until 60 }}{{ $a = `+function+` $a $a }}{{ end }}`, nil)

		if err == nil {
			t.Fatalf("%s: the limit is not held", function)
		}
		expect.Contains(t, function, err.Error(), "more than the limit of 10485760")
	}
}

// TestFunctionsAreSprigs: all functions have the types of sprig's, so that templates call them as
// in Helm. Those that Helm defines itself or removes are left to Helm.
func TestFunctionsAreSprigs(t *testing.T) {
	const text = `{{ add 1 2 3 }} {{ list 1 "a" | join "," }} {{ dict "a" 1 }} {{ default "x" "" }} {{ printf "%d-%s" 3 "b" }} {{ ternary 1 2 true }} {{ "abc" | regexFind "b." }}`
	var bounded, plain strings.Builder
	for out, functions := range map[*strings.Builder]template.FuncMap{&bounded: new(Rendering).Functions(), &plain: sprig.TxtFuncMap()} {
		parsed, err := template.New("").Funcs(functions).Parse(text)
		expect.NoError(t, err)
		expect.NoError(t, parsed.Execute(out, nil))
	}
	expect.Equal(t, "text", plain.String(), bounded.String())
	for _, name := range append([]string{"include", "tpl", "required", "lookup", "toYaml", "fromYaml", "toToml"}, helmsOwn...) {
		if new(Rendering).Functions()[name] != nil {
			t.Errorf("%s replaces the function of Helm", name)
		}
	}
}

// TestTurns: the renderings of one namespace wait for each other, and not for renderings of other namespaces.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, stop := &Turns{}, t.Context()
		var ends []func()
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			end, err := turns.Begin(stop, t.Context(), "a")
			expect.NoError(t, err)
			ends = append(ends, end)
		}
		begun := make(chan error, 1)
		go func() {
			end, err := turns.Begin(stop, t.Context(), "a")
			begun <- err
			end()
		}()
		synctest.Wait()
		end, err := turns.Begin(stop, t.Context(), "b")
		expect.NoError(t, err)
		end()
		stopped, cancel := context.WithCancel(stop)
		cancel()
		if _, err := turns.Begin(stopped, t.Context(), "a"); !errors.Is(err, ErrStopped) {
			t.Errorf("error of a rendering that waits is %v, want %v", err, ErrStopped)
		}
		expect.Equal(t, "renderings that began early", 0, len(begun))

		for _, end := range ends {
			end()
		}

		expect.NoError(t, <-begun)
		synctest.Wait()
		expect.Equal(t, "namespaces kept", 0, len(turns.namespaces))
	})
}

func valuesOf(argument string) []reflect.Value { return []reflect.Value{reflect.ValueOf(argument)} }
