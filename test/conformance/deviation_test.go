// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// This is the list of intended differences between the engine and Helm. Scenarios name those that
// apply.

// failureText: the description of a failed revision contains the error's text, and the engine's
// errors have their own texts.
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

// unfinished: the engine keeps the records of an uninstall that failed.
var unfinished = deviation{
	why:    "Helm forgets a release before its last hooks run; the engine keeps what is not finished, for the next attempt",
	forget: func(w *world) { w.Records = nil },
}

// givenUp: Helm leaves a rollback pending if its hook fails.
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

// endHooks marks running hooks of a record as failed.
func endHooks(hooks any) {
	for _, hook := range hooks.([]any) {
		if run := hook.(map[string]any)["last_run"].(map[string]any); run["phase"] == "Running" {
			run["phase"], run["completed_at"] = "Failed", "some time"
		}
	}
}

// known: the engine knows the objects that it created.
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

// claimed: the engine ends the ownership of the client that made an object.
func claimed(object, manager string) deviation {
	return deviation{
		why: "in Helm, the client that made an object stays an owner of its fields, so a field stays after the chart drops it",
		expect: func(helm *world) {
			made, ok := helm.Objects[object].(map[string]any)
			if !ok {
				return
			}
			made["managed"] = slices.DeleteFunc(made["managed"].([]any), func(entry any) bool {
				return entry.(map[string]any)["manager"] == manager
			})
		},
	}
}

// stringData: the engine applies data. Helm applies stringData, in which the API server sees no
// change.
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

// undone: the engine tries, and removes the objects that it created.
var undone = deviation{
	why: "Helm asks for each object before it begins; the engine finds out when it creates them, and takes back the others",
	forget: func(w *world) {
		if w.Error == classConflict {
			w.Created, w.Deleted = nil, nil
		}
	},
}

// allRevisions: after a failure, the number and the descriptions of revisions may differ. One
// revision must be deployed, and none may be pending.
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

// withCRD: a CRD is deleted before its custom resources.
var withCRD = deviation{
	why:    "the API server may remove the custom resources of a deleted CRD before the player deletes them",
	forget: func(w *world) { w.Deleted = nil },
}

// currentState: only the current state counts, not the revisions that led to it.
var currentState = deviation{
	why: "an object's generation, and what a chart makes of the revision, depend on earlier revisions",
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

// randomText is text that a chart renders differently each time.
var randomText = deviation{
	why: "it is rendered from random numbers and the time",
	forget: func(w *world) {
		mask(w.Objects["Secret NAMESPACE/web"], "data", "password")
		mask(w.Objects["Secret NAMESPACE/web"], "data", "token")
		mask(w.Objects["ConfigMap NAMESPACE/web"], "data", "at")
		mask(w.Objects["ConfigMap NAMESPACE/web"], "data", "uuid")
		for _, record := range w.Records {
			delete(record.(map[string]any), "manifest")
		}
	},
}
