// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

const root = "../.."

// Values of health.status that Argo CD knows and the script uses.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
	suspended   = "Suspended"
)

// health is the result of the script.
type health struct{ Status, Message string }

// timeout is the time that Argo CD gives a script.
const timeout = time.Second

// assess runs the script for an object, with the libraries that Argo CD opens for the scripts of
// its users. Argo CD also opens a part of the library os, which the script does not use.
func assess(t *testing.T, script string, object map[string]any) health {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returned %s instead of a table", state.Get(-1).Type())
	}
	return health{Status: lua.LVAsString(result.RawGetString("status")), Message: lua.LVAsString(result.RawGetString("message"))}
}

// luaValue returns a JSON value as Lua sees it in Argo CD: null is nil, and numbers are floats.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		list := state.CreateTable(len(value), 0)
		for _, item := range value {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(value))
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// script returns the text of the health check.
func script(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "artifacts", "argocd", "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
