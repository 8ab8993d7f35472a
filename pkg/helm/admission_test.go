// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/fakeapi"
)

// tenants is a resource of a webhook's own.
var tenants = schema.GroupResource{Group: "example.com", Resource: "tenants"}

// denied is the answer of a webhook that gives only a code and a reason.
func denied(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "denied"}}
}

// TestRefusedDeletion: whatever admission answers to the deletion of an object, the object is not
// gone. The release stays recorded until the deletion succeeds.
func TestRefusedDeletion(t *testing.T) {
	answers := map[string]error{
		"forbidden":            apierrors.NewForbidden(tenants, "one", errors.New("protected")),
		"400 without a reason": denied(http.StatusBadRequest, ""),
		"misses an object":     apierrors.NewNotFound(tenants, "one"),
		"404":                  denied(http.StatusNotFound, metav1.StatusReasonNotFound),
		"404 without a reason": denied(http.StatusNotFound, ""),
		"meets a conflict":     apierrors.NewConflict(tenants, "one", errors.New("changed")),
		"409":                  denied(http.StatusConflict, metav1.StatusReasonConflict),
		"429":                  denied(http.StatusTooManyRequests, ""),
		"500":                  denied(http.StatusInternalServerError, ""),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
				f.must(desired, ActionInstall, CauseNotInstalled)
				refuses := true
				f.With(func() {
					f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
						if refuses && request.Verb == "delete" && request.Key.Name == "a" {
							return answer
						}
						return nil
					}
				})

				err := f.tryUninstall(desired)

				if err == nil {
					t.Error("the uninstall succeeded")
				}
				if names := f.Names(); !slices.Contains(names, "ConfigMap default/a") || len(f.HelmRecords()) != 1 {
					t.Errorf("objects %v, records %v; want ConfigMap a and its record", names, f.HelmRecords())
				}
				f.With(func() { refuses = false })
				f.uninstall(desired)
				synctest.Wait()
				if names := f.Names(); len(names) > 0 {
					t.Errorf("objects remain: %v", names)
				}
			})
		})
	}
}

// TestQuotaConflict: the API server answers Conflict if too many objects of a quota are created at the
// same time. The install goes on, and no hook runs twice.
func TestQuotaConflict(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		conflicts := 2
		f.With(func() {
			f.React = jobsEnd
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Key.Name != "a" || conflicts == 0 {
					return nil
				}
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "objects", errors.New("the object has been modified"))
			}
		})
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0)})

		f.must(desired, ActionInstall, CauseNotInstalled)

		wantSteps(t, f, "install", "apply jobs default/pre", "apply configmaps default/a", "apply configmaps default/a", "apply configmaps default/a")
	})
}

// TestQuotaConflictThatLasts: a conflict about a quota says nothing about the release.
func TestQuotaConflictThatLasts(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
				if object == nil || request.Key.Name != "a" {
					return nil
				}
				return apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "objects", errors.New("the object has been modified"))
			}
		})

		_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}))

		_ = wantError[*UnavailableError](t, err)
	})
}

// TestAdmissionTakesMarks: without the label and the annotations by which the engine watches objects,
// it would see neither their health nor their drift. The refusal ends with the policy.
func TestAdmissionTakesMarks(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		says   string
	}{
		"another manager": {
			func(object *unstructured.Unstructured) {
				object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "platform"})
			},
			`label app.kubernetes.io/managed-by from "Helm" to "platform"`,
		},
		"no annotations": {
			func(object *unstructured.Unstructured) { object.SetAnnotations(nil) },
			`annotation meta.helm.sh/release-name from "web" to ""`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() {
					f.Validate = func(object *unstructured.Unstructured) error {
						if object.GetName() == "a" {
							test.change(object)
						}
						return nil
					}
				})
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				for range 2 {
					_, err := f.reconcile(desired)
					says := "ConfigMap default/a was refused: admission changes its " + test.says
					if refused := wantError[*RefusedError](t, err); !strings.HasPrefix(refused.Error(), says) {
						t.Errorf("error is %v, want %s", refused, says)
					}
				}
				f.With(func() { f.Validate = nil })
				f.must(desired, ActionInstall, CauseFailed)
				live := f.Object("ConfigMap", "default/a")
				if live.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" || live.GetAnnotations()["meta.helm.sh/release-name"] != "web" {
					t.Errorf("labels %v, annotations %v", live.GetLabels(), live.GetAnnotations())
				}
			})
		})
	}
}
