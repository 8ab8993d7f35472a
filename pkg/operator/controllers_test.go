// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	const names = "demoapp, postgresql, watches, website"
	unknown := " is the name of no kind; use *, or names with or without a leading dash, of: " + names
	tests := []struct {
		name string
		args []string
		want []string
		err  string
	}{
		{name: "default", want: []string{"website", "demoapp", "postgresql"}},
		{name: "all", args: []string{"--controllers=*"}, want: []string{"website", "demoapp", "postgresql"}},
		{name: "an empty value is the default", args: []string{"--controllers="}, want: []string{"website", "demoapp", "postgresql"}},
		{name: "names", args: []string{"--controllers=postgresql,website"}, want: []string{"website", "postgresql"}},
		{name: "all except one", args: []string{"--controllers=*,-website"}, want: []string{"demoapp", "postgresql"}},
		{name: "the order does not matter", args: []string{"--controllers=-website, *"}, want: []string{"demoapp", "postgresql"}},
		{name: "the flag twice", args: []string{"--controllers=*", "--controllers=-website"}, want: []string{"demoapp", "postgresql"}},
		{name: "the first item decides", args: []string{"--controllers=-website,website,demoapp"}, want: []string{"demoapp"}},
		{name: "a kind without Build is known", args: []string{"--controllers=demoapp,-watches"}, want: []string{"demoapp"}},
		{name: "without a star, other kinds are off", args: []string{"--controllers=-website"}, err: "--controllers=-website: enables no kind that can run; use * to enable all kinds"},
		{name: "only a kind without Build", args: []string{"--controllers=watches"}, err: "--controllers=watches: enables no kind that can run; use * to enable all kinds"},
		{name: "unknown name", args: []string{"--controllers=*,Website"}, err: `--controllers=*,Website: "Website"` + unknown},
		{name: "unknown names", args: []string{"--controllers=*,-webapp,-*"}, err: `--controllers=*,-webapp,-*: "-webapp", "-*"` + unknown},
		{name: "empty name", args: []string{"--controllers=*,"}, err: `--controllers=*,: ""` + unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			build := func(*Environment) error { return nil }
			kinds := []Kind{{Name: "website", Build: build}, {Name: "demoapp", Build: build}, {Name: "watches"}, {Name: "postgresql", Build: build}}

			selected, err := parse(t, test.args...).Select(kinds...)

			var got []string
			for _, kind := range selected {
				got = append(got, kind.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("selected kinds = %q, want %q", got, test.want)
			}
			if message := errorText(err); message != test.err {
				t.Errorf("error = %q\nwant    %q", message, test.err)
			}
		})
	}
}

// TestMainSelectsKinds ends before a request is sent, because the name is unknown.
func TestMainSelectsKinds(t *testing.T) {
	build := func(context.Context) ([]Kind, error) {
		return []Kind{{Name: "website", Build: func(*Environment) error { return nil }}}, nil
	}

	err := runMain(t.Context(), parse(t, "--controllers=websites"), nil, build)

	if want := `--controllers=websites: "websites" is the name of no kind`; !strings.HasPrefix(errorText(err), want) {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestEnabledWithoutControllers(t *testing.T) {
	if o := (&Options{}); !o.Enabled("website") {
		t.Error("options without Controllers disable a kind")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
