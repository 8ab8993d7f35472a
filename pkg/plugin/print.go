// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// printObjects prints objects in kubectl's formats json, yaml and name, and warns of masked fields.
func (c *command) printObjects(format string, mask inspect.Mask, objects []listed) error {
	if format == "name" {
		var printer printers.NamePrinter
		for _, o := range objects {
			if err := printer.PrintObj(o.object, c.streams.Out); err != nil {
				return err
			}
		}
		return nil
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	var fields []string
	for _, o := range objects {
		shown := mask.Object(o.object)
		list.Items = append(list.Items, *shown)
		for _, field := range inspect.MaskedFields(o.object, shown) {
			fields = append(fields, strings.ToLower(o.summary.Kind)+"/"+o.summary.Name+" "+field)
		}
	}
	c.warnOfMasked(fields)
	var printer printers.ResourcePrinter = &printers.JSONPrinter{}
	if format == "yaml" {
		printer = &printers.YAMLPrinter{}
	}
	return (&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(list, c.streams.Out)
}

// maxMasked is the number of masked fields that a warning names.
const maxMasked = 10

// warnOfMasked says which fields of the output are masked. kubectl apply of the output would write
// the mask.
func (c *command) warnOfMasked(fields []string) {
	if len(fields) == 0 {
		return
	}
	more := ""
	if hidden := len(fields) - maxMasked; hidden > 0 {
		fields, more = fields[:maxMasked], fmt.Sprintf(" and %d more", hidden)
	}
	fmt.Fprintf(c.streams.ErrOut, "warning: masked: %s%s; do not apply the output, because *** would replace the secrets\n",
		printable(strings.Join(fields, ", ")), more)
}

// listRows returns the table of objects, with its first row if isNew.
func (c *command) listRows(o getOptions, isNew bool, objects []listed, waitsFor func(inspect.Summary) string) [][]cell {
	wide := o.output == "wide"
	head := []string{"NAME", "READY", "STATUS", "REVISION", "CHART", "AGE", "WAITS FOR"}
	if o.allNamespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "MESSAGE")
	}
	var rows [][]cell
	if isNew {
		rows = append(rows, make([]cell, 0, len(head)))
		for _, name := range head {
			rows[0] = append(rows[0], cell{text: name})
		}
	}
	for _, object := range objects {
		summary := object.summary
		row := []cell{
			{text: printable(strings.ToLower(summary.Kind) + "/" + summary.Name)},
			{text: printable(string(summary.Ready)), color: readyColor(summary)},
			{text: printable(statusWord(summary))},
			{text: orNone(summary.Revision)},
			{text: printable(summary.Chart)},
			{text: age(c.options.Now(), summary.Created)},
			{text: printable(waitsFor(summary))},
		}
		if o.allNamespaces {
			row = append([]cell{{text: summary.Namespace}}, row...)
		}
		if wide {
			row = append(row, cell{text: printable(summary.Message)})
		}
		rows = append(rows, row)
	}
	return rows
}

// printAs prints a value as json or yaml.
func (c *command) printAs(format string, value any) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		return oneOf("output", format, "json", "yaml")
	}
	if err != nil {
		return err
	}
	_, err = c.streams.Out.Write(text)
	return err
}

// statusWord is the reason of Ready, followed by the states that Ready hides.
func statusWord(s inspect.Summary) string {
	words := []string{s.Reason}
	for _, more := range []struct {
		is   bool
		word string
	}{{s.Deleting, "Deleting"}, {s.Drifted, "Drifted"}, {s.Suspended, "Suspended"}} {
		if more.is && !strings.HasPrefix(s.Reason, more.word) {
			words = append(words, more.word)
		}
	}
	return strings.Join(words, ",")
}

// orNone returns a number that is not 0.
func orNone(number int64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatInt(number, 10)
}
