// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/example/demoapp-controller/pkg/endpoint"
)

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// chartReference is a parsed reference to a remote chart. It has a digest, a version, or both.
type chartReference struct {
	// text is the reference for messages. It has no credentials.
	text string
	// location is "registry/repository" of an OCI chart, and otherwise a URL, with its credentials.
	location string
	// host is the host of the location, with its port.
	host string
	oci  bool
	// digest is "sha256:<hex>": of the manifest of an OCI chart, and otherwise of the archive.
	digest string
	// version is a semantic version, which Chart.yaml must have.
	version string
}

// parseReference parses a reference to a remote chart. Its errors have no part of the
// reference that could be a credential.
func parseReference(reference string) (chartReference, error) {
	parsed, err := url.Parse(reference)
	if err != nil {
		return chartReference{}, errors.New("not a valid URL")
	}
	if parsed.Host == "" {
		return chartReference{}, errors.New("the URL has no host")
	}
	switch parsed.Scheme {
	case "oci":
		return parseOCI(parsed)
	case "https":
		return parseHTTP(parsed)
	case "http":
		if !endpoint.IsLoopback(parsed.Hostname()) {
			return chartReference{}, errors.New("http:// is for loopback hosts only: use https://")
		}
		return parseHTTP(parsed)
	default:
		return chartReference{}, errors.New("unknown scheme: use a path, oci:// or https://")
	}
}

// parseOCI parses oci://registry/repository, followed by ":<version>", "@<digest>", or both.
func parseOCI(parsed *url.URL) (chartReference, error) {
	if parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return chartReference{}, errors.New("an oci:// reference has no user, query or fragment: " +
			"credentials belong in the registry configuration")
	}
	name, digest, hasDigest := strings.Cut(parsed.Path, "@")
	tag := ""
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon+1:]
	}
	r := chartReference{oci: true, text: redactURLs(parsed.String()), location: parsed.Host + name, host: parsed.Host}
	switch {
	case !hasDigest && tag == "":
		return r, errors.New(`not pinned: append ":<version>" or "@sha256:<digest>"`)
	case hasDigest && !digestPattern.MatchString(digest):
		return r, errors.New(`the digest must be "sha256:" and 64 lower-case hexadecimal digits`)
	}
	r.digest = digest
	// Registries do not allow "+" in tags, so Helm writes "_" for it.
	r.version = strings.ReplaceAll(tag, "_", "+")
	if tag != "" && !isVersion(r.version) {
		return r, errors.New(`the tag is not a full version such as 1.2.3: pin with ":<version>" or "@sha256:<digest>"`)
	}
	return r, nil
}

// parseHTTP parses the URL of an archive. The fragment has the pin; without one, the name
// of the file ends in the version.
func parseHTTP(parsed *url.URL) (chartReference, error) {
	fragment := parsed.Fragment
	parsed.Fragment, parsed.RawFragment = "", ""
	r := chartReference{text: redactURLs(parsed.String()), location: parsed.String(), host: parsed.Host}
	if fragment == "" {
		if r.version = fileVersion(parsed.Path); r.version == "" {
			return r, errors.New(`not pinned: append "#sha256=<digest>" or "#version=<version>", ` +
				`or use a file name that ends in "-<version>.tgz"`)
		}
		return r, nil
	}
	for pin := range strings.SplitSeq(fragment, "&") {
		switch key, value, _ := strings.Cut(pin, "="); {
		case key == "sha256" && digestPattern.MatchString("sha256:"+value):
			r.digest = "sha256:" + value
		case key == "version" && isVersion(value):
			r.version = value
		default:
			return r, errors.New(`the fragment must be "sha256=<64 lower-case hexadecimal digits>", ` +
				`"version=<full version>", or both with "&" between them`)
		}
	}
	return r, nil
}

// fileVersion returns the version in a file name such as "my-chart-1.2.3-rc.1.tgz".
func fileVersion(file string) string {
	name, isArchive := strings.CutSuffix(path.Base(file), ".tgz")
	for isArchive {
		_, rest, found := strings.Cut(name, "-")
		if !found {
			break
		}
		if isVersion(rest) {
			return rest
		}
		name = rest
	}
	return ""
}

// isVersion reports whether the text is a full semantic version. A leading "v" is allowed.
func isVersion(text string) bool {
	_, err := version.ParseSemantic(text)
	return err == nil && text == strings.TrimSpace(text)
}

// check returns an error if a chart has another version than the reference.
func (r chartReference) check(c *Chart) error {
	if r.version != "" && strings.TrimPrefix(r.version, "v") != strings.TrimPrefix(c.Version(), "v") {
		return fmt.Errorf("the version in Chart.yaml is %s, the reference has %s", c.Version(), r.version)
	}
	return nil
}

// maxPullErrorText is the largest text in bytes of an error that a server caused.
const maxPullErrorText = 512

var (
	urlPattern = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"]*`)
	// queryPattern finds the queries of relative URLs, which errors of redirects have.
	queryPattern = regexp.MustCompile(`\?[^\s"]*`)
)

// redactURLs returns the text as one line without the users, queries and fragments of its URLs.
func redactURLs(text string) string {
	text = urlPattern.ReplaceAllStringFunc(text, func(match string) string {
		parsed, err := url.Parse(match)
		if err != nil {
			scheme, _, _ := strings.Cut(match, "://")
			return scheme + "://..."
		}
		parsed.User, parsed.RawQuery, parsed.ForceQuery, parsed.Fragment, parsed.RawFragment = nil, "", false, "", ""
		return parsed.String()
	})
	return strings.Join(strings.Fields(queryPattern.ReplaceAllString(text, "")), " ")
}

// redactReference returns a reference for messages. It leaves out all of a malformed URL,
// because any part could be a password.
func redactReference(reference string) string {
	if parsed, err := url.Parse(reference); err == nil {
		return redactURLs(parsed.String())
	}
	scheme, _, _ := strings.Cut(reference, "://")
	return scheme + "://..."
}

// redacted returns an error of a server or of its client with a redacted, short text.
func redacted(err error) error {
	text := redactURLs(err.Error())
	if len(text) > maxPullErrorText {
		text = strings.ToValidUTF8(text[:maxPullErrorText], "") + "..."
	}
	return &redactedError{text: text, err: err}
}

// redactedError is an error with another text. It matches the error that it wraps.
type redactedError struct {
	text string
	err  error
}

// Error implements error.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the original error, for matching and not for printing.
func (e *redactedError) Unwrap() error { return e.err }
