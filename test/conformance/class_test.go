// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/example/demoapp-controller/pkg/helm"
)

// The classes that errors are compared by.
const (
	classNone     = ""
	classRender   = "does not render"
	classRefused  = "refused by the API server"
	classConflict = "belongs to another owner"
	classHook     = "hook failed"
	classKind     = "unknown kind"
	// classNamespace is the class of objects in a namespace that does not exist.
	classNamespace = "unknown namespace"
	classOther     = "other: "
)

// classOf returns the class of a player's error. The engine's errors have types. Most of Helm's do
// not, so the class follows from the text.
func classOf(err error) string {
	var (
		render   *helm.RenderError
		refused  *helm.RefusedError
		conflict *helm.OwnershipConflictError
	)
	switch {
	case err == nil:
		return classNone
	case errors.As(err, &conflict), contains(err, "invalid ownership metadata"):
		return classConflict
	case errors.As(err, &render), contains(err, "don't meet the specifications of the schema"),
		contains(err, "execution error at"), contains(err, "error calling"), contains(err, "YAML parse error"),
		contains(err, "chart requires kubeVersion"):
		return classRender
	case errors.As(err, &refused), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), contains(err, "error validating"),
		contains(err, "failed to create typed patch object"):
		return classRefused
	case apierrors.IsNotFound(err) && contains(err, "namespaces \""):
		return classNamespace
	case meta.IsNoMatchError(err), contains(err, "no matches for kind"):
		return classKind
	case contains(err, "job failed"), contains(err, "pod failed"), contains(err, "hooks failed"), contains(err, "failed pre-"),
		contains(err, "failed post-"), contains(err, "not ready. status: "), contains(err, " hook "):
		return classHook
	default:
		return classOther + err.Error()
	}
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
