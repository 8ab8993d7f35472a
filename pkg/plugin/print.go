// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// listPrinter prints objects in one of kubectl's formats.
type listPrinter struct {
	// format is json, yaml or name; "" and wide are tables.
	format         string
	withNamespaces bool
}

func newListPrinter(format string, withNamespaces bool) (listPrinter, error) {
	switch format {
	case "", "wide", "json", "yaml", "name":
		return listPrinter{format, withNamespaces}, nil
	default:
		return listPrinter{}, fmt.Errorf("--output: no format %q; use json, yaml, name or wide", format)
	}
}

func (p listPrinter) table() bool { return p.format == "" || p.format == "wide" }

func (p listPrinter) print(out io.Writer, objects []*unstructured.Unstructured, now time.Time) error {
	switch p.format {
	case "name":
		var printer printers.NamePrinter
		for _, object := range objects {
			if err := printer.PrintObj(object, out); err != nil {
				return err
			}
		}
		return nil
	case "json", "yaml":
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		for _, object := range objects {
			list.Items = append(list.Items, *object)
		}
		var printer printers.ResourcePrinter = &printers.JSONPrinter{}
		if p.format == "yaml" {
			printer = &printers.YAMLPrinter{}
		}
		return (&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(list, out)
	default:
		return p.printTable(out, objects, now)
	}
}

func (p listPrinter) printTable(out io.Writer, objects []*unstructured.Unstructured, now time.Time) error {
	table := &metav1.Table{}
	column := func(name string, wide bool) {
		definition := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if wide {
			definition.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, definition)
	}
	if p.withNamespaces {
		column("Namespace", false)
	}
	for _, name := range []string{"Name", "Ready", "Status", "Revision", "Chart", "Age"} {
		column(name, false)
	}
	column("Message", true)
	for _, object := range objects {
		s := inspect.Summarize(object)
		cells := []any{
			strings.ToLower(s.Kind) + "/" + s.Name, string(s.Ready), statusWord(s), orNone(s.Revision), s.Chart, age(now, s.Created), s.Message,
		}
		if p.withNamespaces {
			cells = append([]any{s.Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: object}})
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: p.format == "wide"}).PrintObj(table, out)
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
		return fmt.Errorf("--output: no format %q; use json or yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = c.streams.Out.Write(text)
	return err
}

// statusWord is the reason of Ready, with what it hides.
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
func orNone(number int64) any {
	if number == 0 {
		return ""
	}
	return number
}
