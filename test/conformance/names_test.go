// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"fmt"
	"testing"
	"time"
)

// namesakes returns a chart with an object, and with a hook of the same name at these events.
func namesakes(events, policies, message string) source {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same%s}\ndata: {message: %s}\n"
	annotations := fmt.Sprintf(", annotations: {helm.sh/hook: %q", events)
	if policies != "" {
		annotations += fmt.Sprintf(", helm.sh/hook-delete-policy: %q", policies)
	}
	return smallChart("", source{
		"templates/object.yaml": fmt.Appendf(nil, object, "", message),
		"templates/hook.yaml":   fmt.Appendf(nil, object, annotations+"}", "hook"),
	})
}

// TestHookOfTheNameOfAnObject deploys charts with a hook and an object of one name.
func TestHookOfTheNameOfAnObject(t *testing.T) {
	t.Parallel()
	const events = "pre-install,pre-upgrade,pre-rollback,pre-delete"
	for _, policies := range []string{"", "hook-succeeded", "before-hook-creation,hook-succeeded", "hook-failed"} {
		t.Run(policies, func(t *testing.T) {
			t.Parallel()
			last := uninstall
			if policies == "hook-failed" {
				last = last.but(known("ConfigMap NAMESPACE/same")) // The hook is applied over the object.
			}
			scenario{steps: []step{
				deploySource("install", namesakes(events, policies, "one")),
				deploySource("upgrade", namesakes(events, policies, "two")),
				rollback(1),
				deploySource("upgrade again", namesakes(events, policies, "three")),
				last,
			}}.play(t)
		})
	}
}

// hanging returns a chart with a hook that never ends, between hooks of all policies.
func hanging(event string) source {
	const hook = "apiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  annotations: {helm.sh/hook: %q, helm.sh/hook-weight: %q, helm.sh/hook-delete-policy: %q}\n%s\n"
	files := source{}
	for i, policies := range []string{"hook-succeeded", "hook-failed", "before-hook-creation"} {
		for weight, name := range map[string]string{"-1": "before", "1": "after"} {
			name := fmt.Sprintf("%s-%d", name, i)
			files["templates/"+name+".yaml"] = fmt.Appendf(nil, hook, "ConfigMap", name, event, weight, policies, "")
		}
	}
	files["templates/never.yaml"] = fmt.Appendf(nil, hook, "Pod", "never", event, "0", "hook-failed",
		"spec: {restartPolicy: Never, containers: [{name: pod, image: busybox:1}]}")
	return smallChart("", files)
}

// TestHookThatHangs lets a hook outlast the timeout. The policies of all hooks are carried out.
func TestHookThatHangs(t *testing.T) {
	t.Parallel()
	const limit = 15 * time.Second // Of which the engine needs some for the rest of an operation.
	scenarios := []scenario{
		{name: "before the install", timeout: limit, steps: []step{
			deploySource("install", hanging("pre-install")).fails(classHook).but(failureText),
		}},
		{name: "after the upgrade", timeout: limit, steps: []step{
			deploySource("install", hanging("post-upgrade")),
			deploySource("upgrade", hanging("post-upgrade, test")).fails(classHook).but(failureText),
		}},
		{name: "before the uninstall", timeout: limit, steps: []step{
			deploySource("install", hanging("pre-delete")),
			uninstall.fails(classHook).but(failureText),
		}},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}
