// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
)

// isServerError reports whether an answer has the code 500.
func isServerError(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusInternalServerError
}

// migrateVersions moves the managed fields of a release's object from versions that the API server no
// longer serves to the version of the mapping, and reports whether there were any. The API server
// answers 500 to an apply of an object with such fields: its converter of custom resources knows
// only the served versions.
func (o *operation) migrateVersions(info *resource.Info) bool {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil || !o.ours(info, live) && !o.isOwnHook(live) {
		return false
	}
	kind := info.Mapping.GroupVersionKind
	current, migrated := kind.GroupVersion().String(), false
	managed := live.GetManagedFields()
	for i := range managed {
		version, err := schema.ParseGroupVersion(managed[i].APIVersion)
		if err != nil || managed[i].APIVersion == current {
			continue
		}
		if _, err := o.engine.mapper.Mapping(version.WithKind(kind.Kind)); meta.IsNoMatchError(err) {
			managed[i].APIVersion, migrated = current, true
		}
	}
	if !migrated {
		return false
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": managed},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err == nil {
		_, err = o.client(info).Patch(o.ctx, info.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	}
	if err != nil {
		o.logger.Warn("Could not migrate managed fields of a version that is not served", slog.String("target", reference(info).String()), slog.Any("err", shortened(err)))
		return false
	}
	return true
}
