// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package license

import (
	"net/url"

	"github.com/example/demoapp-controller/pkg/endpoint"
)

// Subject is the app that needs a license.
type Subject struct {
	Namespace, Name, Image string
}

// URL is a template of a URL over the fields of a [Subject].
type URL struct {
	template *endpoint.Template
}

// ParseURL parses a Go template of a URL. The template may use .Namespace, .Name
// and .Image, see [endpoint.ParseTemplate].
func ParseURL(text string) (*URL, error) {
	parsed, err := endpoint.ParseTemplate(text, "Namespace", "Name", "Image")
	if err != nil {
		return nil, err
	}
	return &URL{template: parsed}, nil
}

// of returns the URL for a subject. None of its fields contains a space.
func (u *URL) of(s Subject) (*url.URL, error) {
	return u.template.URL(map[string]string{"Namespace": s.Namespace, "Name": s.Name, "Image": s.Image})
}
