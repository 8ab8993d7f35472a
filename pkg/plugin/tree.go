// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/spf13/cobra"

	"github.com/example/demoapp-controller/pkg/inspect"
)

func (c *command) tree() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "tree KIND/NAME",
		Short: "Show an object and everything below it, down to pods, with health",
		Example: "  # The objects of a DemoApp\n  kubectl demoapp tree demoapp/web\n\n" +
			"  # A composition, for a program\n  kubectl demoapp tree ecommerceplatform/shop -o json",
		Args: oneObject, ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := c.cluster()
			if err != nil {
				return err
			}
			object, err := c.object(cmd.Context(), cluster, args)
			if err != nil {
				return err
			}
			root, err := cluster.Tree(cmd.Context(), object)
			if err != nil {
				return err
			}
			if output != "" {
				return c.printAs(output, treeView(root))
			}
			c.screen().table(c.treeRows(root))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}

// nodeView is a node of a tree in JSON and YAML.
type nodeView struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Namespace  string             `json:"namespace,omitempty"`
	Name       string             `json:"name"`
	Health     string             `json:"health"`
	Message    string             `json:"message,omitempty"`
	Revisions  []inspect.Revision `json:"revisions,omitempty"`
	Children   []nodeView         `json:"children,omitempty"`
}

func treeView(node *inspect.Node) nodeView {
	version, kind := node.ToAPIVersionAndKind()
	view := nodeView{
		APIVersion: version, Kind: kind, Namespace: node.Namespace, Name: node.Name,
		Health: string(node.Health.Status), Message: node.Health.Message, Revisions: node.Revisions,
	}
	for _, child := range node.Children {
		view.Children = append(view.Children, treeView(child))
	}
	return view
}

// treeRows returns the table of a tree.
func (c *command) treeRows(root *inspect.Node) [][]cell {
	rows := [][]cell{{{text: "OBJECT"}, {text: "HEALTH"}, {text: "AGE"}, {text: "MESSAGE"}}}
	var walk func(node *inspect.Node, first, rest string)
	walk = func(node *inspect.Node, first, rest string) {
		row := []cell{{text: first + printable(node.String())}, healthCell(node.Health.Status), {}, {text: printable(nodeMessage(node))}}
		if node.Object != nil {
			row[2].text = age(c.options.Now(), node.Object.GetCreationTimestamp().Time)
		}
		rows = append(rows, row)
		for i, revision := range node.Revisions {
			branch := "├─"
			if len(node.Children) == 0 && i == len(node.Revisions)-1 {
				branch = "└─"
			}
			rows = append(rows, []cell{{text: rest + branch + fmt.Sprintf("revision %d", revision.Number)}, {text: printable(revision.Status)}})
		}
		for i, child := range node.Children {
			if i == len(node.Children)-1 {
				walk(child, rest+"└─", rest+"  ")
			} else {
				walk(child, rest+"├─", rest+"│ ")
			}
		}
	}
	walk(root, "", "")
	return rows
}

// nodeMessage is why an object is not healthy, or could not be read as a whole.
func nodeMessage(node *inspect.Node) string {
	if node.Health.Message == "" && node.Err != nil {
		return node.Err.Error()
	}
	return node.Health.Message
}

func healthCell(health status.Status) cell {
	colors := map[status.Status]color{
		status.CurrentStatus: green, status.InProgressStatus: yellow, status.TerminatingStatus: yellow,
		status.FailedStatus: red, status.NotFoundStatus: red, status.UnknownStatus: grey,
	}
	return cell{text: string(health), color: colors[health]}
}
