// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/example/demoapp-controller/pkg/registries"
)

// defaultTag is the tag of a reference without tag and digest.
const defaultTag = "latest"

// Blocklist is a list of blocked images. The zero value blocks none.
type Blocklist struct {
	entries []entry
}

// entry is one entry of a Blocklist. Without tag and digest it is a whole repository.
type entry struct {
	text string
	parts
}

// parts are the parts of a normalized reference.
type parts struct {
	repository, tag, digest string
}

// ParseBlocklist parses image references, with or without surrounding blanks. A reference
// without tag and digest blocks all images of the repository. A reference with a digest
// blocks the image with this digest, whatever its tag. Any other reference blocks the
// images with its tag. The error quotes the first invalid entry.
func ParseBlocklist(references []string) (Blocklist, error) {
	var list Blocklist
	for _, text := range references {
		text = strings.TrimSpace(text)
		parsed, err := parse(text)
		if err != nil {
			return Blocklist{}, fmt.Errorf("%q is not an image reference: %w; use for example nginx, nginx:1.27 or "+
				"registry.example.com/team/web@sha256:<digest>", text, err)
		}
		if !slices.ContainsFunc(list.entries, func(e entry) bool { return e.text == text }) {
			list.entries = append(list.entries, entry{text, parsed})
		}
	}
	return list, nil
}

// parse returns the parts of a reference.
func parse(text string) (parts, error) {
	if text == "" {
		return parts{}, errors.New("it is empty")
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return parts{}, err
	}
	parsed := parts{repository: registries.Name(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		parsed.tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		parsed.digest = digested.Digest().String()
	}
	return parsed, nil
}

// Entries returns the entries without duplicates, as they were given.
func (l Blocklist) Entries() []string {
	texts := make([]string, len(l.entries))
	for i, e := range l.entries {
		texts[i] = e.text
	}
	return texts
}

// Match returns the first entry that blocks an image. Nothing blocks a text that is not an
// image reference, because no node can pull it.
func (l Blocklist) Match(image string) (entry string, blocked bool) {
	if len(l.entries) == 0 {
		return "", false
	}
	of, err := parse(image)
	if err != nil {
		return "", false
	}
	if of.tag == "" && of.digest == "" {
		of.tag = defaultTag
	}
	for _, e := range l.entries {
		if e.blocks(of) {
			return e.text, true
		}
	}
	return "", false
}

func (e entry) blocks(image parts) bool {
	switch {
	case e.repository != image.repository:
		return false
	case e.digest != "":
		return e.digest == image.digest
	case e.tag != "":
		return e.tag == image.tag
	default:
		return true
	}
}
