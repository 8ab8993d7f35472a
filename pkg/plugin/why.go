// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/inspect"
)

func (c *command) why() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Say why an object is not ready: the first blocking cause, and what to do",
		Long: "Follows an object through whatever it waits for, to the object that someone must change.\n\n" +
			"Exit codes: 0 ready, 1 waits, 2 needs a person, 3 the command failed.",
		Example: "  kubectl demoapp why demoapp/web\n\n  # In a script\n  kubectl demoapp why postgresql/db -o json | jq -r '.cause.kind'",
		Args:    oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := c.cluster()
			if err != nil {
				return err
			}
			object, err := c.object(cmd.Context(), cluster, args)
			if err != nil {
				return err
			}
			explanation, err := cluster.Why(cmd.Context(), object, c.options.Now())
			if err != nil {
				return err
			}
			if output != "" {
				err = c.printAs(output, whyView(explanation))
			} else {
				c.printWhy(c.screen(), explanation)
			}
			if err == nil && explanation.Verdict != inspect.Ready {
				err = answerError(explanation.Verdict)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

// stepView is a step in JSON and YAML.
type stepView struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Message    string `json:"message,omitempty"`
}

// explanationView is an explanation in JSON and YAML.
type explanationView struct {
	Verdict  string     `json:"verdict"`
	Cause    stepView   `json:"cause"`
	Steps    []stepView `json:"steps"`
	Commands []string   `json:"commands,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

func whyView(e *inspect.Explanation) explanationView {
	view := explanationView{Verdict: e.Verdict.String(), Commands: e.Commands, Notes: e.Notes}
	for _, step := range e.Steps {
		version, kind := step.Object.ToAPIVersionAndKind()
		view.Steps = append(view.Steps, stepView{version, kind, step.Object.Namespace, step.Object.Name, step.Text})
	}
	view.Cause = view.Steps[len(view.Steps)-1]
	return view
}

func (c *command) printWhy(s screen, e *inspect.Explanation) {
	colors := map[inspect.Verdict]color{inspect.Ready: green, inspect.Waits: yellow, inspect.NeedsPerson: red}
	verdict := e.Verdict.String()
	name := s.cut(printable(e.Steps[0].Object.String()), len(verdict)+len(": "))
	fmt.Fprintf(s.out, "%s: %s\n", name, s.paint(verdict, colors[e.Verdict]))
	said := ""
	for i, step := range e.Steps {
		indent := strings.Repeat("  ", i)
		if i > 0 {
			fmt.Fprintf(s.out, "%s└─%s\n", strings.Repeat("  ", i-1), s.cut(printable(step.Object.String()), 2*i))
		}
		// An object often repeats the message of the object below it.
		if step.Text != said {
			s.wrapped(printable(step.Text), indent+"  ")
		}
		said = step.Text
	}
	if e.Verdict != inspect.Ready {
		fmt.Fprint(s.out, "\n")
		s.wrappedBehind(cell{"Cause:", blue}, printable(e.Cause().Object.String()), "")
		for _, command := range e.Commands {
			fmt.Fprintf(s.out, "%s  %s\n", s.paint("Next:", blue), printable(command))
		}
	}
	for _, note := range e.Notes {
		fmt.Fprint(s.out, "\n")
		s.wrapped("Note: "+printable(note), "")
	}
}
