// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"text/template"
)

// Subject is the app that needs a license.
type Subject struct {
	Namespace, Name, Image string
}

// URL is a template of a URL over the fields of a [Subject].
type URL struct {
	template *template.Template
}

// ParseURL parses a Go template of a URL. The template may use .Namespace, .Name
// and .Image in the path and the query; their values are escaped. The scheme must
// be https, or http for a loopback host. Errors do not quote text, because it may
// hold a secret.
func ParseURL(text string) (*URL, error) {
	parsed, err := template.New("license").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, errors.New("is not a Go template")
	}
	u := &URL{template: parsed}
	var hosts []string
	for _, sample := range []Subject{{}, {Namespace: "a", Name: "b", Image: "c"}, {Namespace: "d", Name: "e", Image: "f.example/g:1@h"}} {
		at, err := u.of(sample)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, at.Scheme+"://"+at.User.String()+"@"+at.Host)
		if err := check(at); err != nil {
			return nil, err
		}
	}
	if hosts[0] != hosts[1] || hosts[1] != hosts[2] {
		return nil, errors.New("must have the same host for every app: use fields in its path and query only")
	}
	return u, nil
}

func check(at *url.URL) error {
	switch {
	case at.Hostname() == "":
		return errors.New("is not a URL with a scheme and a host")
	case at.Scheme == "https":
		return nil
	case at.Scheme == "http" && isLoopback(at.Hostname()):
		return nil
	default:
		return errors.New("must begin with https://; http:// is allowed for loopback hosts only (localhost, 127.0.0.1, [::1])")
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// of returns the URL for a subject. The values are escaped for a query. They are
// also valid in a path, because none of them contains a space.
func (u *URL) of(s Subject) (*url.URL, error) {
	var text strings.Builder
	escaped := Subject{url.QueryEscape(s.Namespace), url.QueryEscape(s.Name), url.QueryEscape(s.Image)}
	if err := u.template.Execute(&text, escaped); err != nil {
		return nil, errors.New("may use .Namespace, .Name and .Image only")
	}
	at, err := url.Parse(text.String())
	if err != nil {
		return nil, fmt.Errorf("is not a URL")
	}
	return at, nil
}
