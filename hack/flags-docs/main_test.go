// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestWrite(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Int("workers", 10, "`number` of objects")
	flags.StringSlice("names", nil, "comma-separated `names` (default all)")
	flags.String("address", "0", "`host:port` of an endpoint")
	flags.String("server-url", "", "`url` of a|b (default none)")
	var text strings.Builder

	err := write(&text, flags, []topic{
		{title: "Work", introduction: "How much.", names: []string{"workers", "names", "address"}},
		{title: "Nothing", introduction: "No flags."},
		{title: "Servers", introduction: "Others.", prefixes: []string{"server-"}},
	}, map[string]string{"workers": "See [capacity](capacity.md)."})
	if err != nil {
		t.Fatal(err)
	}

	tables := strings.TrimPrefix(text.String(), introduction)
	expected := `
## Work

How much.

| flag | type | default | meaning |
|---|---|---|---|
| ` + "`--address` | text | `0` | `host:port` of an endpoint. |" + `
| ` + "`--names` | list | all | Comma-separated names. |" + `
| ` + "`--workers` | number | `10` | Number of objects. See [capacity](capacity.md). |" + `

## Servers

Others.

| flag | type | default | meaning |
|---|---|---|---|
| ` + "`--server-url` | text | none | URL of a\\|b. |" + `
`
	if tables != expected {
		t.Errorf("got:\n%s\nexpected:\n%s", tables, expected)
	}
}

func TestWriteRefusesGaps(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Int("workers", 10, "`number` of objects")
	var text strings.Builder

	err := write(&text, flags, []topic{{title: "Nothing"}}, map[string]string{"retries": "How often."})

	if err == nil || !strings.Contains(err.Error(), "--workers belongs to no topic") ||
		!strings.Contains(err.Error(), "explains --retries, which does not exist") {
		t.Errorf("error = %v", err)
	}
	if text.Len() > 0 {
		t.Errorf("printed %q", text.String())
	}
}
