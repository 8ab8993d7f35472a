// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"text/template"
)

// Template is a template of a URL.
type Template struct {
	template *template.Template
	fields   []string
}

// ParseTemplate parses a Go template of a URL. The template may use the fields, for
// example .Name for the field "Name", in the path and the query; their values are
// escaped. The scheme must be https, or http for a loopback host. Errors do not quote
// text, because it may hold a secret.
func ParseTemplate(text string, fields ...string) (*Template, error) {
	parsed, err := template.New("url").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, errors.New("is not a Go template")
	}
	t := &Template{template: parsed, fields: fields}
	var hosts []string
	for _, sample := range []string{"", "a", "b", "f.example/g:1@h"} {
		values := map[string]string{}
		for _, field := range fields {
			values[field] = sample
		}
		at, err := t.URL(values)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, at.Scheme+"://"+at.User.String()+"@"+at.Host)
		if err := check(at); err != nil {
			return nil, err
		}
		if hosts[0] != hosts[len(hosts)-1] {
			return nil, errors.New("must have the same host for every app: use fields in its path and query only")
		}
	}
	return t, nil
}

func check(at *url.URL) error {
	switch {
	case at.Hostname() == "":
		return errors.New("is not a URL with a scheme and a host")
	case at.Scheme == "https":
		return nil
	case at.Scheme == "http" && IsLoopback(at.Hostname()):
		return nil
	default:
		return errors.New("must begin with https://; http:// is allowed for loopback hosts only (localhost, 127.0.0.1, [::1])")
	}
}

// IsLoopback reports whether a host without its port is this machine.
func IsLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// URL returns the URL for the values of all fields. The values are escaped for a query.
// They must not contain spaces, so that they are also valid in a path.
func (t *Template) URL(values map[string]string) (*url.URL, error) {
	escaped := make(map[string]string, len(t.fields))
	for _, field := range t.fields {
		escaped[field] = url.QueryEscape(values[field])
	}
	var text strings.Builder
	if err := t.template.Execute(&text, escaped); err != nil {
		return nil, fmt.Errorf("may use %s only", t.names())
	}
	at, err := url.Parse(text.String())
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	return at, nil
}

// names returns the fields as the template writes them: ".Namespace, .Name and .Image".
func (t *Template) names() string {
	names := make([]string, len(t.fields))
	for i, field := range t.fields {
		names[i] = "." + field
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
