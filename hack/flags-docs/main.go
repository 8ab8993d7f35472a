// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command flags-docs prints docs/flags.md: every flag of the operator with its type, default and
// meaning, by topic.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/example/demoapp-controller/cmd/demoapp-controller/app"
)

const introduction = `# Flags

This page is written by ` + "`make generate`" + ` from the flags of the binary; do not edit it. An invalid value ends the operator at
its start, with one line for each invalid flag and the exit code 2. ` + "`demoapp-controller --help`" + ` prints the same flags, and
` + "`--version`" + ` prints the version.

The chart of the operator and ` + "`artifacts/deploy`" + ` set flags as arguments of the container.
`

func main() {
	flags := pflag.NewFlagSet("demoapp-controller", pflag.ContinueOnError)
	flags.SortFlags = false
	app.NewOptions().AddFlags(flags)
	if err := write(os.Stdout, flags, topics, explanations); err != nil {
		fmt.Fprintln(os.Stderr, "flags-docs:", err)
		os.Exit(1)
	}
}

// write prints the page of the flags. Each flag must belong to a topic, and each explanation to a
// flag.
func write(w io.Writer, flags *pflag.FlagSet, topics []topic, explanations map[string]string) error {
	rows := make([][]string, len(topics))
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		i := topicOf(topics, flag.Name)
		if i < 0 {
			errs = append(errs, fmt.Errorf("--%s belongs to no topic: add it to hack/flags-docs/topics.go", flag.Name))
			return
		}
		rows[i] = append(rows[i], row(flag, explanations[flag.Name]))
	})
	for name := range explanations {
		if flags.Lookup(name) == nil {
			errs = append(errs, fmt.Errorf("hack/flags-docs/topics.go explains --%s, which does not exist", name))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var text strings.Builder
	text.WriteString(introduction)
	for i, topic := range topics {
		if len(rows[i]) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n| flag | type | default | meaning |\n|---|---|---|---|\n%s",
			topic.title, topic.introduction, strings.Join(rows[i], ""))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// statedDefault matches a default that a usage text states.
var statedDefault = regexp.MustCompile(` ?\(default:? ([^)]*)\)`)

// row returns the line of a flag in its table.
func row(flag *pflag.Flag, explanation string) string {
	placeholder, usage := pflag.UnquoteUsage(flag)
	value := code(flag.DefValue)
	if flag.DefValue == "[]" || flag.DefValue == "" {
		value = ""
	}
	if stated := statedDefault.FindStringSubmatch(usage); stated != nil {
		usage = strings.Replace(usage, stated[0], "", 1)
		value = stated[1]
		if strings.ContainsAny(value, "<:.") {
			value = code(value)
		}
	}
	if strings.ContainsAny(placeholder, ":=") {
		usage = strings.Replace(usage, placeholder, code(placeholder), 1)
	}
	meaning := sentence(escape(usage))
	if explanation != "" {
		meaning += " " + explanation
	}
	name := "`--" + flag.Name + "`"
	if flag.Shorthand == flag.Name {
		name = "`-" + flag.Name + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", name, typeOf(flag), strings.Trim(escape(value), "[]"), meaning)
}

// typeOf returns the type of the value, as shown to users.
func typeOf(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "bool":
		return "true, false"
	case "int":
		return "number"
	case "duration":
		return "duration"
	case "stringSlice":
		return "list"
	case "stringToString":
		return "pairs"
	default:
		return "text"
	}
}

// sentence begins text with a capital letter and ends it with a period.
func sentence(text string) string {
	if rest, ok := strings.CutPrefix(text, "url "); ok {
		return "URL " + rest + "."
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// code marks text as code, without the brackets of a list.
func code(text string) string {
	return "`" + strings.Trim(text, "[]") + "`"
}

// escape returns text for a cell of a Markdown table.
func escape(text string) string {
	return strings.ReplaceAll(text, "|", `\|`)
}
