// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/example/demoapp-controller/pkg/controller/naming"
)

const (
	// MaxRecordBytes bounds a record as it is stored, in bytes.
	MaxRecordBytes = 64 << 10
	// metadataBytes is kept free for the metadata of a record, which the limits of names and labels bound.
	metadataBytes = 4 << 10
	// minOmitted is the length in bytes from which on a field may be replaced by its digest, which is shorter.
	minOmitted = 256
	// hashDigits is the length of the hash in the name of a record.
	hashDigits = 10
)

// deletedAtKey is the key of the time of the deletion, in RFC 3339.
const deletedAtKey = "deleted-at"

// Record is what is known of a deleted object.
type Record struct {
	// Namespace, Name and UID identify the object.
	Namespace, Name string
	UID             types.UID
	// DeletedAt is the object's deletionTimestamp.
	DeletedAt time.Time
	// Sections are the contents by their key, each of which becomes a JSON object. They must not hold secrets: digests
	// of them are stored, too, and could be used to guess.
	Sections map[string]any
}

// data returns the entries of the record. A reduced record has a digest in the place of each section.
func (r Record) data(reduced bool) (map[string]string, error) {
	entries := map[string]string{deletedAtKey: r.DeletedAt.UTC().Format(time.RFC3339)}
	sections := make([]*section, 0, len(r.Sections))
	for _, key := range slices.Sorted(maps.Keys(r.Sections)) {
		text, err := encode(r.Sections[key])
		if err != nil {
			return nil, fmt.Errorf("audit record of the %s: %w", key, err)
		}
		if reduced {
			text = omit(text)
		}
		sections = append(sections, &section{key: key, whole: text, text: text})
	}
	fit(sections, MaxRecordBytes-metadataBytes-len(deletedAtKey)-len(entries[deletedAtKey]))
	for _, s := range sections {
		entries[s.key] = string(s.text)
	}
	return entries, nil
}

// section is one entry of a record.
type section struct {
	key string
	// whole is the JSON text of all of it, and text what of that is stored.
	whole, text json.RawMessage
	// fields are those of text; nil where it is no JSON object.
	fields map[string]json.RawMessage
}

// size is what the section takes of a record, in bytes.
func (s *section) size() int { return len(s.key) + len(s.text) }

// largest returns the name of the largest field that may be replaced, or "".
func (s *section) largest() string {
	name := ""
	for _, candidate := range slices.Sorted(maps.Keys(s.fields)) {
		text := s.fields[candidate]
		if len(text) >= minOmitted && (name == "" || len(text) > len(s.fields[name])) {
			name = candidate
		}
	}
	return name
}

// omitField replaces a field by its digest.
func (s *section) omitField(name string) error {
	s.fields[name] = omit(s.fields[name])
	text, err := encode(s.fields)
	if err != nil {
		return err
	}
	s.text = text
	return nil
}

// fit makes sections small enough for limit bytes. It replaces single fields first, the largest one first, and whole
// sections where that is not enough.
func fit(sections []*section, limit int) {
	total := func() (bytes int) {
		for _, s := range sections {
			bytes += s.size()
		}
		return bytes
	}
	if total() <= limit {
		return
	}
	for _, s := range sections {
		if json.Unmarshal(s.text, &s.fields) != nil {
			s.fields = nil // It is no object, and is replaced as a whole.
		}
	}
	for total() > limit {
		cut := slices.MaxFunc(sections, func(a, b *section) int {
			return cmp.Compare(len(a.fields[a.largest()]), len(b.fields[b.largest()]))
		})
		if name := cut.largest(); name == "" || cut.omitField(name) != nil {
			break
		}
	}
	for _, s := range slices.SortedFunc(slices.Values(sections), func(a, b *section) int { return cmp.Compare(b.size(), a.size()) }) {
		if total() > limit {
			s.text = omit(s.whole)
		}
	}
}

// omit returns what stands in the place of a JSON text.
func omit(text json.RawMessage) json.RawMessage {
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, `{"omitted":true,"sha256":%q,"bytes":%d}`, hex.EncodeToString(sum[:]), len(text))
}

// encode returns the JSON text of a value. Characters that mean something in HTML are written as they are: escaped they
// would take six bytes each.
func encode(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return unescape(bytes.TrimRight(text.Bytes(), "\n")), nil
}

// unescape replaces the escapes of <, > and & in a JSON text. The API server escapes them in fields of free form, which
// are not encoded again.
func unescape(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	const length = len(`\u003c`)
	unescaped := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := min(at+length, len(text))
		switch {
		case text[at] != '\\':
			unescaped, at = append(unescaped, text[at]), at+1
			continue
		case bytes.EqualFold(text[at:end], []byte(`\u003c`)):
			unescaped, at = append(unescaped, '<'), end
		case bytes.EqualFold(text[at:end], []byte(`\u003e`)):
			unescaped, at = append(unescaped, '>'), end
		case bytes.EqualFold(text[at:end], []byte(`\u0026`)):
			unescaped, at = append(unescaped, '&'), end
		default:
			// The backslash and what it escapes, which may be another backslash.
			end = min(at+2, len(text))
			unescaped, at = append(unescaped, text[at:end]...), end
		}
	}
	return unescaped
}

// recordName returns <namespace>-<name>-<unix seconds>. If that is longer than an object's name may be, a hash replaces
// the end of the name.
func recordName(namespace, name string, deletedAt time.Time) string {
	suffix := fmt.Sprintf("-%d", deletedAt.Unix())
	full := namespace + "-" + name
	if len(full)+len(suffix) <= validation.DNS1123SubdomainMaxLength {
		return full + suffix
	}
	return hashedName(full, namespace+"/"+name, suffix)
}

// hashedName returns the part of name that fits, a hash of identity, and suffix.
func hashedName(name, identity, suffix string) string {
	return naming.Hashed(name, identity, validation.DNS1123SubdomainMaxLength-len(suffix), hashDigits) + suffix
}
