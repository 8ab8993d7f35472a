// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rawjson_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/rawjson"
)

func TestMeasure(t *testing.T) {
	tests := map[string]struct {
		document string
		want     rawjson.Size
	}{
		"object":               {`{"a": {"bc": [1, true, null, "x"]}, "d": -2.5e3}`, rawjson.Size{Nodes: 11, Depth: 3, Key: 2}},
		"structure in a text":  {`["{[,:\"]}", "\\"]`, rawjson.Size{Nodes: 3, Depth: 1}},
		"many small objects":   {`[` + strings.Repeat(`{"":0},`, 1000) + `0]`, rawjson.Size{Nodes: 3002, Depth: 2}},
		"a text is no key":     {`{"a": "longer"}`, rawjson.Size{Nodes: 3, Depth: 1, Key: 1}},
		"scalar":               {` 17 `, rawjson.Size{Nodes: 1}},
		"nothing":              {``, rawjson.Size{}},
		"white space at a key": {"{\"abc\"\n:\t1}", rawjson.Size{Nodes: 3, Depth: 1, Key: 3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rawjson.Measure([]byte(test.document))); diff != "" {
				t.Errorf("size (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	tests := map[string]struct {
		document string
		want     []string
	}{
		"all kinds of values": {
			`{"a": {"b": [1, {}]}, "\u0062": "x\"}", "c": [], "d": 1.5 , "e": null}`,
			[]string{`a={"b": [1, {}]}`, `b="x\"}"`, `c=[]`, `d=1.5`, `e=null`},
		},
		"empty object":   {` { } `, nil},
		"a list":         {`[{"a": 1}]`, nil},
		"nothing":        {``, nil},
		"not terminated": {`{"a"`, []string{`a=`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for key, value := range rawjson.Members([]byte(test.document)) {
				got = append(got, key+"="+string(value))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
	if got := rawjson.Member([]byte(`{"a": 1, "b": [2]}`), "b"); string(got) != "[2]" {
		t.Errorf("member is %s", got)
	}
}

// FuzzRawJSON: sizes and members of a valid document are equal to sizes and members of the decoded
// document. Any other document does not panic.
func FuzzRawJSON(f *testing.F) {
	for _, seed := range []string{`{"a": {"bc": [1, true, null, "x\"}\\"]}, "d": -2.5e3}`, `[[], {}, ""]`, `{"a"`, `"\`, "{\"\u00e9\":\r\n\t0}", `{`, `{"a":}`, `{,`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		size, keys := rawjson.Measure(document), []string{}
		for key, value := range rawjson.Members(document) {
			keys = append(keys, key)
			if json.Valid(document) && !json.Valid(value) {
				t.Errorf("value %s of %q is no JSON", value, key)
			}
		}
		if !json.Valid(document) {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(document)))
		decoder.UseNumber()
		nodes, depth, deepest := 0, 0, 0
		for token, err := decoder.Token(); err == nil; token, err = decoder.Token() {
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
				deepest = max(deepest, depth)
				nodes++
			case json.Delim('}'), json.Delim(']'):
				depth--
			default:
				nodes++
			}
		}
		if size.Nodes != nodes || size.Depth != deepest {
			t.Errorf("size is %v, want %d nodes, depth %d", size, nodes, deepest)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(document, &object) != nil {
			return
		}
		for key := range object {
			if !slices.Contains(keys, key) {
				t.Errorf("member %q is missing", key)
			}
		}
	})
}
