// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"fmt"
	"strings"
)

// This is the list of the ways in which the engine differs from Helm on purpose. Scenarios name those that they meet.

// failureText: what a failed revision says about its failure has the error's text in it, and the engine's errors are its
// own.
var failureText = deviation{
	why: "the description of a failed revision quotes the error, and the engine has errors of its own",
	forget: func(w *world) {
		for _, record := range w.Records {
			info := record.(map[string]any)["info"].(map[string]any)
			if before, _, failed := strings.Cut(info["description"].(string), "failed: "); failed {
				info["description"] = before + "failed"
			}
		}
	},
}

// unfinished: the engine keeps the records of an uninstall that failed in the end.
var unfinished = deviation{
	why:    "Helm forgets a release before its last hooks run; the engine keeps what is not finished, for the next attempt",
	forget: func(w *world) { w.Records = nil },
}

// givenUp: Helm leaves a rollback pending whose hook fails.
var givenUp = deviation{
	why: "a release that stays pending-rollback refuses every upgrade until a person acts; the engine marks it, and the " +
		"hook, as failed",
	expect: func(helm *world) {
		for _, record := range helm.Records {
			fields := record.(map[string]any)
			info := fields["info"].(map[string]any)
			if info["status"] == "pending-rollback" {
				info["status"], info["description"] = "failed", fmt.Sprintf("Rollback %q failed: a hook", releaseName)
				fields["secret"].(map[string]any)["labels"].(map[string]any)["status"] = "failed"
				endHooks(fields["hooks"])
			}
		}
	},
}

// endHooks notes in a record that the hook failed that it says is running.
func endHooks(hooks any) {
	for _, hook := range hooks.([]any) {
		if run := hook.(map[string]any)["last_run"].(map[string]any); run["phase"] == "Running" {
			run["phase"], run["completed_at"] = "Failed", "some time"
		}
	}
}

// known: the engine knows what it made.
func known(objects ...string) deviation {
	return deviation{
		why: "Helm leaves behind an object that lost its label; the engine knows by its UID that it made it, and removes it",
		expect: func(helm *world) {
			for _, object := range objects {
				delete(helm.Objects, object)
			}
		},
	}
}

// stringData: the engine applies data, Helm stringData, of which the API server knows no change.
func stringData(secret string) deviation {
	return deviation{
		why: "the API server does not notice changes to a field that was applied as stringData",
		forget: func(w *world) {
			if object, ok := w.Objects["Secret NAMESPACE/"+secret].(map[string]any); ok {
				delete(object, "managed")
			}
		},
	}
}

// undone: the engine tries, and takes back what it made.
var undone = deviation{
	why: "Helm asks for each object before it begins; the engine finds out when it creates them, and takes back the others",
	forget: func(w *world) {
		if w.Error == classConflict {
			w.Created, w.Deleted = nil, nil
		}
	},
}

// allRevisions: after a failure there may be more revisions, and what is said about them differs. What counts is that one
// is deployed, and none is in the middle of something.
var allRevisions = deviation{
	why: "an attempt that failed may have left its trace in the history",
	forget: func(w *world) {
		newest, deployed := "", []any{}
		for name, record := range w.Records {
			status := record.(map[string]any)["info"].(map[string]any)["status"]
			if len(name) > len(newest) || len(name) == len(newest) && name > newest {
				newest = name
			}
			if status != "superseded" && status != "failed" {
				deployed = append(deployed, status)
			}
		}
		if record, ok := w.Records[newest].(map[string]any); ok {
			w.Records = map[string]any{
				"newest": map[string]any{"manifest": record["manifest"], "config": record["config"], "chart": record["chart"]},
				"active": deployed,
			}
		}
	},
}

// currentState: only what there is now counts, and not the way that led to it.
var currentState = deviation{
	why: "an object's generation, and what a chart makes of the revision, tell of the past",
	forget: func(w *world) {
		w.Records, w.Hooks, w.Created, w.Deleted = nil, nil, nil, nil
		for _, object := range w.Objects {
			metadata := object.(map[string]any)["metadata"].(map[string]any)
			delete(metadata, "generation")
			if annotations, ok := metadata["annotations"].(map[string]any); ok {
				delete(annotations, "example.com/revision")
			}
		}
	},
}
