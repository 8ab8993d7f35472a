// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// anyValue is the address of a schema that accepts every value.
const anyValue = "urn:demoapp-controller:any-value"

// references are the keywords of a schema that refer to another schema.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// namedSchemas are the keywords with an object of schemas by name. dataKeywords have no schemas,
// but data that may look like one.
var (
	namedSchemas = []string{"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"}
	dataKeywords = []string{"const", "enum", "default", "examples", "example"}
)

// localize changes a schema so that it refers to nothing but itself and files of its chart. A
// reference to another file or address becomes one to a schema that accepts every value, and an
// unknown $schema is removed. It returns the documents by their addresses, and the addresses that
// are left out, in order.
func localize(document any, chart *chartv2.Chart) (documents map[string]any, remote []string) {
	l := localizer{chart: chart, files: schemaFiles(chart), documents: map[string]any{}, local: map[string]bool{}, library: map[string]bool{}}
	l.add(schemaURL, document)
	slices.Sort(l.remote)
	return l.documents, slices.Compact(l.remote)
}

// localizer walks a schema, and the files of the chart that it refers to.
type localizer struct {
	chart *chartv2.Chart
	files map[string][]byte
	// documents are the schema and the files by their addresses.
	documents map[string]any
	// draft is $schema of the current document.
	draft string
	// local are the addresses of the documents and of the schemas in them.
	local map[string]bool
	// library are the results of inLibrary.
	library map[string]bool
	// remote are the addresses that nothing is read from.
	remote []string
}

// schemaFiles returns the files that the schema of a chart may refer to.
func schemaFiles(chart *chartv2.Chart) map[string][]byte {
	files := map[string][]byte{}
	for _, file := range chart.Files {
		if path.Ext(file.Name) == ".json" {
			files[file.Name] = file.Data
		}
	}
	return files
}

// add adds a document, and then the files that it refers to.
func (l *localizer) add(at string, document any) {
	base, err := url.Parse(at)
	if err != nil {
		return
	}
	l.documents[at], l.local[at], l.draft = document, true, ""
	if root, ok := document.(map[string]any); ok {
		l.draft, _ = root["$schema"].(string)
	}
	// A reference may lead to a schema that follows it, so first all addresses are collected.
	l.each(document, base, func(_ map[string]any, base *url.URL) { l.local[address(base)] = true })
	var files []string
	l.each(document, base, func(schema map[string]any, base *url.URL) {
		for _, keyword := range references {
			target := resolved(base, schema[keyword])
			if target == nil || l.isLocal(target) {
				continue
			}
			if file := l.fileOf(target); file != "" {
				files = append(files, file)
				target.Scheme, target.User, target.Host, target.Path, target.RawPath, target.RawQuery = "file", nil, "", "/"+file, "", ""
				schema[keyword] = target.String()
				continue
			}
			schema[keyword] = anyValue
			l.remote = append(l.remote, shown(target.String()))
		}
		if dialect := resolved(base, schema["$schema"]); dialect != nil && !isDraft(dialect) {
			delete(schema, "$schema")
			l.remote = append(l.remote, shown(dialect.String()))
		}
	})
	for _, file := range files {
		at := (&url.URL{Scheme: "file", Path: "/" + file}).String()
		if _, known := l.documents[at]; !known {
			l.add(at, l.read(file))
		}
	}
}

// fileOf returns the file of the chart that a reference leads to; empty if the reference leads
// elsewhere. Helm 3 resolves references against the working directory, so an address may have any
// folders in front of the chart's own: file://./helm-charts/NAME/defs.json.
func (l *localizer) fileOf(target *url.URL) string {
	if target.Scheme != "file" || l.chart.Metadata == nil {
		return ""
	}
	file, folder := strings.TrimPrefix(path.Clean("/"+target.Path), "/"), l.chart.Metadata.Name+"/"
	for {
		if _, ok := l.files[file]; ok {
			return file
		}
		_, below, found := strings.Cut("/"+file, "/"+folder)
		if !found {
			return ""
		}
		file = below
	}
}

// read returns a file of the chart. A file that is no JSON accepts every value.
func (l *localizer) read(file string) any {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(l.files[file]))
	if err != nil {
		l.remote = append(l.remote, shown(file))
		return true
	}
	return document
}

// each visits all schemas in a document, with their base addresses.
func (l *localizer) each(node any, base *url.URL, visit func(schema map[string]any, base *url.URL)) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			l.each(item, base, visit)
		}
	case map[string]any:
		base = l.baseOf(node, base)
		visit(node, base)
		for keyword, value := range node {
			named, isObject := value.(map[string]any)
			switch {
			case slices.Contains(dataKeywords, keyword):
			case isObject && slices.Contains(namedSchemas, keyword):
				for _, schema := range named {
					l.each(schema, base, visit)
				}
			default:
				l.each(value, base, visit)
			}
		}
	}
}

// maxPath limits the path of an address, which each nested schema with a relative address extends.
const maxPath = 2048

// baseOf returns the base address of the references in a schema: its own address, if it has one.
// Drafts up to 7 ignore all keywords next to a reference.
func (l *localizer) baseOf(schema map[string]any, base *url.URL) *url.URL {
	keyword := "$id"
	if strings.Contains(l.draft, "/draft-04/") {
		keyword = "id"
	}
	if _, refers := schema["$ref"]; refers && strings.Contains(l.draft, "/draft-0") {
		return base
	}
	if own := resolved(base, schema[keyword]); own != nil && len(own.Path) <= maxPath {
		return own
	}
	return base
}

// isLocal reports whether a reference can be resolved without reading anything: it leads into the
// document, or to a schema that the library has.
func (l *localizer) isLocal(target *url.URL) bool {
	return l.local[address(target)] || target.Host == "json-schema.org" && l.inLibrary(address(target))
}

// inLibrary reports whether the library has a schema.
func (l *localizer) inLibrary(address string) bool {
	has, known := l.library[address]
	if !known {
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(jsonschema.SchemeURLLoader{})
		_, err := compiler.Compile(address)
		has = err == nil
		l.library[address] = has
	}
	return has
}

// isDraft reports whether the library has the dialect.
func isDraft(dialect *url.URL) bool {
	switch dialect.Path {
	case "/schema", "/draft-04/schema", "/draft-06/schema", "/draft-07/schema", "/draft/2019-09/schema", "/draft/2020-12/schema":
		return dialect.Host == "json-schema.org"
	default:
		return false
	}
}

// resolved returns a reference relative to a base; nil if it is no reference. The library reports
// references that cannot be parsed.
func resolved(base *url.URL, reference any) *url.URL {
	text, ok := reference.(string)
	if !ok {
		return nil
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil
	}
	return base.ResolveReference(target)
}

// address returns an address without its fragment.
func address(of *url.URL) string {
	whole := *of
	whole.Fragment, whole.RawFragment = "", ""
	return strings.TrimSuffix(whole.String(), "#")
}

// maxShown is the number of bytes of an address that a note shows.
const maxShown = 200

// shown returns an address for a note, without possible credentials.
func shown(text string) string {
	target, err := url.Parse(text)
	if err != nil {
		return "an address"
	}
	target.User, target.RawQuery, target.Fragment, target.RawFragment = nil, "", "", ""
	text = target.String()
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}
