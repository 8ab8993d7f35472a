// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package registries

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// hub is Docker Hub. legacyHub is its old name, which [reference.ParseNormalizedNamed] replaces.
const hub, legacyHub = "docker.io", "index.docker.io"

// hubAliases are other hosts that serve the images of hub.
var hubAliases = []string{legacyHub, "registry-1.docker.io", "registry.hub.docker.com"}

// defaultPort matches the port that a host without a port has.
var defaultPort = regexp.MustCompile(`:0*443$`)

// Name returns the normalized name of an image, without tag and digest: the host is in lower
// case and has no default port, and Docker Hub has one host.
func Name(named reference.Named) string {
	host, path := hostOf(reference.Domain(named)), reference.Path(named)
	if host == hub && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// hostOf normalizes a host.
func hostOf(domain string) string {
	host := defaultPort.ReplaceAllString(strings.ToLower(domain), "")
	if slices.Contains(hubAliases, host) {
		return hub
	}
	return host
}

// List is a list of allowed registries. The zero value allows all images.
type List struct {
	// prefixes are hosts in lower case, with or without a path prefix.
	prefixes []string
}

// Parse parses entries of the form host[:port][/path], with or without surrounding
// blanks. The error quotes the first invalid entry and names the valid form.
func Parse(entries []string) (List, error) {
	list := List{prefixes: make([]string, 0, len(entries))}
	for _, entry := range entries {
		prefix, err := parsePrefix(strings.TrimSpace(entry))
		if err != nil {
			return List{}, fmt.Errorf("%q is not a registry: %w", entry, err)
		}
		list.prefixes = append(list.prefixes, prefix)
	}
	return list, nil
}

// parsePrefix parses an entry as the beginning of an image name.
func parsePrefix(entry string) (string, error) {
	if entry == "" {
		return "", errors.New("it is empty")
	}
	host, path, hasPath := strings.Cut(entry, "/")
	named, err := reference.ParseNormalizedNamed(entry + "/image")
	if err != nil {
		return "", errors.New("use a host, or a host and a path, without a scheme and a tag, for example registry.example.com/team")
	}
	domain := reference.Domain(named)
	if domain != host && host != legacyHub {
		return "", fmt.Errorf("it does not begin with a host; write %s/%s if you mean that", domain, entry)
	}
	if domain = hostOf(domain); !hasPath {
		return domain, nil
	}
	return domain + "/" + path, nil
}

// IsEmpty reports whether all images are allowed.
func (l List) IsEmpty() bool { return len(l.prefixes) == 0 }

// Check returns the normalized name of an image, without tag and digest. It returns
// an error if the image is not allowed.
func (l List) Check(image string) (name string, err error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q is not a valid image reference: %w", image, err)
	}
	name = Name(named)
	if l.IsEmpty() {
		return name, nil
	}
	for _, prefix := range l.prefixes {
		if name == prefix || strings.HasPrefix(name, prefix+"/") {
			return name, nil
		}
	}
	return "", fmt.Errorf("image %s is not from an allowed registry: %s", name, strings.Join(l.prefixes, ", "))
}
