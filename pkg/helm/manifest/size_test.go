// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/example/demoapp-controller/test/memory"
)

// repeated repeats a text up to a size.
func repeated(text string, size int) string { return strings.Repeat(text, size/len(text)) }

func TestManifestLimits(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	laughs := object + "data:\n  a0: &a0 [lol]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	text := repeated("x", 1000)
	refused := map[string]struct{ manifest, limit string }{
		"bytes":                  {object + "data: {a: " + repeated("x", MaxBytes) + "}\n", "the limit of 10485760"},
		"objects":                {strings.Repeat("---\n"+object, maxObjects+1), "the limit of 10000"},
		"objects of a List":      {"apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {}\n", maxObjects+1), "the limit of 10000"},
		"nodes":                  {object + "data: [" + repeated("0,", 1<<20) + "0]\n", "the limit of 200000"},
		"empty items":            {object + "data:\n" + repeated("-\n", 1<<20), "the limit of 200000"},
		"nested items":           {object + "data:\n" + repeated("- - - - - - - a\n", 1<<20), "the limit of 200000"},
		"empty keys":             {object + "data: {" + repeated("?,", 1<<20) + "}\n", "the limit of 200000"},
		"nodes of JSON":          {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[` + repeated("{},", 1<<20) + "0]}\n", "the limit of 200000"},
		"nodes of all documents": {strings.Repeat("---\na: ["+repeated("0,", 190_000)+"0]\n", 6), "the limit of 1000000"},
		"billion laughs":         {laughs, "the aliases"},
		"aliases of a text":      {object + "data:\n  a: &a " + text + "\n  b: [" + repeated("*a,", 1_300_000) + "0]\n", "the limit of 200000"},
		"fewer aliases":          {object + "data:\n  a: &a " + text + "\n  b: [" + repeated("*a,", 100_000) + "0]\n", "the aliases"},
		"aliases of a long text": {object + "data:\n  a: &a " + repeated("x", 1<<19) + "\n  b: [*a,*a,*a,*a]\n", "the aliases"},
		"aliases in flow":        {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: &a " + text + ", b: [" + repeated("*a,", 100_000) + "0]}}\n", "the aliases"},
		"an anchor in itself":    {object + "data: &a\n  b: *a\n", "itself"},
	}
	for name, tc := range refused {
		t.Run(name, func(t *testing.T) {
			before := memory.Allocated()
			_, err := Parse(tc.manifest)
			took := memory.Allocated() - before
			if err == nil || !strings.Contains(err.Error(), tc.limit) {
				t.Errorf("error is %v, want one that names %s", err, tc.limit)
			}
			if took > memory.Limit {
				t.Errorf("%d bytes were allocated, want at most %d", took, memory.Limit)
			}
		})
	}
	// Much text in few nodes is no reason to refuse a manifest.
	dashboard := repeated(`{"panel":[1,2,{"a":true}],"b":"c"},`, 1_000_000)
	accepted := map[string]string{
		"JSON in a block scalar":       object + "data:\n  a.json: |\n    " + dashboard + "\n  b: \"1\"\n",
		"JSON in a folded item":        object + "data:\n- >-\n  " + dashboard + "\n",
		"JSON in single quotes":        object + "data:\n  a.json: '" + dashboard + "'\n",
		"JSON in quotes, over lines":   object + "data:\n  a.json: '" + strings.ReplaceAll(dashboard, "},", "},\n    ") + "'\n  b: c\n",
		"JSON in double quotes":        object + "data:\n  a.json: " + fmt.Sprintf("%q", dashboard) + "\n",
		"JSON in JSON":                 fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a.json":%q}}`, dashboard),
		"as many nodes as are allowed": object + "data: [" + repeated("0,", 190_000) + "0]\n",
		"as many items as are allowed": object + "data:\n" + repeated("-\n", 195_000),
		"anchors, as charts use them":  object + "data:\n  a: &a {b: c}\n" + func() string { return "  more: [" + repeated("*a,", 3000) + "0]\n" }(),
		"operators that look alike":    object + "data:\n  a.sh: |\n    " + repeated("a &b && c *d; ", 1_000_000) + "\n",
	}
	for name, manifest := range accepted {
		t.Run(name, func(t *testing.T) {
			before := memory.Allocated()
			documents, err := Parse(manifest)
			took := memory.Allocated() - before
			if err != nil || len(documents) != 1 || len(documents[0].Objects) != 1 {
				t.Fatalf("%d documents, error is %v, want one object", len(documents), err)
			}
			if took > memory.Limit {
				t.Errorf("%d bytes were allocated, want at most %d", took, memory.Limit)
			}
		})
	}
}

// treeNodes counts the nodes of a tree.
func treeNodes(node *yaml.Node) int {
	count := 1
	for _, child := range node.Content {
		count += treeNodes(child)
	}
	return count
}

// undercount returns by how much the scanner takes a document for smaller than it is.
func undercount(text []byte) int {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) == 0 {
		return 0
	}
	return max(0, treeNodes(root.Content[0])-newBlockScanner(text).count())
}

// TestBlockScanner: texts that could be taken for something else.
func TestBlockScanner(t *testing.T) {
	flow := "[" + strings.Repeat("0,", 100) + "0]"
	tests := map[string]string{
		"quotes that begin in plain text":      "a: b\n  \"c\nd: " + flow + "\ne: \"\n",
		"item with quotes in plain text":       "a: b\n  - \"c\nd: " + flow + "\ne: \"\n",
		"block scalar in plain text":           "a: b\n  - |\nd: " + flow + "\n",
		"quotes that end in a block":           "a: \"\n  b: |\n    \"\nc: " + flow + "\n",
		"quotes that end in a key":             "{x: \"\na: |\n \", y: " + flow + "}\n",
		"flow over lines":                      "a: [\n  b: c,\n  0,\n  " + flow + "]\n",
		"flow with a comment":                  "a: [b #]\n  ,0, " + flow + "]\n",
		"flow with quotes inside a word":       "a: [b\"c, d\"]\ne: " + flow + "\n",
		"flow with quotes behind a colon":      "a: {b:\"c\", d: " + flow + "}\n",
		"another line break":                   "a: b\u0085c: \"\nd: \"\ne: " + flow + "\n",
		"a carriage return":                    "a: b\rc: \"\nd: \"\ne: " + flow + "\n",
		"text behind three dashes":             "--- " + flow + "\n",
		"a tag before a block":                 "a: !!str |\n  b: \"\nc: " + flow + "\n",
		"a scalar of less indentation":         "a:\n  b: |\n    text\n  c: " + flow + "\n",
		"a block behind dashes":                "- - a: |\n      text\n    b: " + flow + "\n",
		"a block in a sequence without indent": "a:\n- |\n  text\n- " + flow + "\n",
		"a question":                           "? \"a\n: b: |\n : " + flow + "\n",
		"pairs":                                "a: [" + strings.Repeat("b: c,", 50) + "]\n",
		"sets":                                 "a: {" + strings.Repeat("b,", 50) + "}\n",
		"nested":                               "a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if missed := undercount([]byte(text)); missed > 0 {
				t.Errorf("%d nodes were not counted", missed)
			}
		})
	}
}
