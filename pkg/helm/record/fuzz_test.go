// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/memory"
)

// packed returns content in the form in which Helm stores it in a Secret.
func packed(t testing.TB, content []byte) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))
}

// FuzzDecodeRecord: for any content of a record's Secret, decoding does not panic and takes bounded
// memory, and the result does not match an empty digest.
func FuzzDecodeRecord(f *testing.F) {
	const limit = 4 << 20
	record := func(content string) []byte { return packed(f, []byte(content)) }
	numbers := `{"config":{"a":[` + strings.Repeat("0,", MaxNodes-8) + `0]}}`
	for _, seed := range [][]byte{
		nil, []byte("%"), []byte("AAAA"), record(""), record("null"), record("{}"), record(`{"hooks":[null]}`), record(`{"info":null,"chart":{}}`),
		record(`{"name":"web","namespace":"default","version":1,"info":{"status":"deployed"},"manifest":"---\n"}`),
		record(numbers), record(strings.Repeat(numbers, 2)), record(`{"config":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9001)),
		record(`{"hooks":[` + strings.Repeat("{},", MaxNodes/2-8) + `{}]}`), packed(f, make([]byte, limit+1)),
		[]byte(base64.StdEncoding.EncodeToString([]byte(`{"version":99999999999999999999}`))),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<20 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rls, _, err := Decode(content, Size{limit, MaxNodes})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > memory.Limit {
			t.Errorf("allocated %d MiB", took>>20)
		}
		if err == nil && Matches("", rls) {
			t.Error("a record matches without a digest")
		}
	})
}
