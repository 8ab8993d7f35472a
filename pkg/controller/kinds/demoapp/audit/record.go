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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
)

const (
	// MaxRecordBytes bounds the stored record, in bytes.
	MaxRecordBytes = 64 << 10
	// metadataBytes is reserved for the metadata and the policy of a record, and for amendments. The API
	// limits of names and labels bound the metadata.
	metadataBytes = 4 << 10
	// maxAmendment bounds an entry that is added to a record, in bytes.
	maxAmendment = 1 << 10
	// minOmitted is the minimum size of a field that is replaced by its digest, in bytes. A digest
	// is shorter.
	minOmitted = 256
	// hashDigits is the length of the hash in the name of a record.
	hashDigits = 10
)

const (
	// deletedAtKey is the data key of the time of the deletion, in RFC 3339.
	deletedAtKey = "deleted-at"
	// policyKey is the data key of the propagation policy of the deletion.
	policyKey = "propagation-policy"
)

// Record describes a deleted object.
type Record struct {
	// Namespace, Name and UID identify the object.
	Namespace, Name string
	UID             types.UID
	// DeletedAt is the object's deletionTimestamp.
	DeletedAt time.Time
	// Policy is the propagation policy of a deletion that kept the children; else empty.
	Policy metav1.DeletionPropagation
	// Sections maps data keys to contents, which are stored as JSON objects. Contents must not hold
	// secrets. Their digests are stored too, and a digest can confirm a guess of a secret.
	Sections map[string]any
}

// data returns the data of the ConfigMap. A reduced record has digests instead of sections.
func (r Record) data(reduced bool) (map[string]string, error) {
	entries := map[string]string{deletedAtKey: r.DeletedAt.UTC().Format(time.RFC3339)}
	if r.Policy != "" {
		entries[policyKey] = string(r.Policy)
	}
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
	// whole is the complete JSON text, and text is the stored JSON text.
	whole, text json.RawMessage
	// fields are the fields of text, or nil if text is not a JSON object.
	fields map[string]json.RawMessage
}

// size returns the size of the section in the record, in bytes.
func (s *section) size() int { return len(s.key) + len(s.text) }

// largest returns the name of the largest field of at least minOmitted bytes, or "".
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

// fit reduces sections to limit bytes. It replaces fields by their digests, the largest field
// first. If that is not enough, it replaces whole sections.
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
			s.fields = nil // Not an object: only the whole section can be replaced.
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

// omit returns the digest that replaces a JSON text.
func omit(text json.RawMessage) json.RawMessage {
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, `{"omitted":true,"sha256":%q,"bytes":%d}`, hex.EncodeToString(sum[:]), len(text))
}

// encode returns the JSON text of a value. It does not escape HTML characters, because an escape
// takes six bytes.
func encode(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return unescape(bytes.TrimRight(text.Bytes(), "\n")), nil
}

// unescape replaces the escapes of <, > and & in a JSON text. The API server escapes these
// characters in free-form fields, which encode copies.
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
			// A backslash and the escaped character, which may be a backslash.
			end = min(at+2, len(text))
			unescaped, at = append(unescaped, text[at:end]...), end
		}
	}
	return unescaped
}

// recordName returns <namespace>-<name>-<unix seconds>. If that exceeds the limit of object names,
// a hash replaces the end of <namespace>-<name>.
func recordName(namespace, name string, deletedAt time.Time) string {
	suffix := fmt.Sprintf("-%d", deletedAt.Unix())
	full := namespace + "-" + name
	if len(full)+len(suffix) <= validation.DNS1123SubdomainMaxLength {
		return full + suffix
	}
	return hashedName(full, namespace+"/"+name, suffix)
}

// hashedName returns the truncated name, a hash of identity, and suffix.
func hashedName(name, identity, suffix string) string {
	return naming.Hashed(name, identity, validation.DNS1123SubdomainMaxLength-len(suffix), hashDigits) + suffix
}
