// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/refusal"
)

// IsServerFault reports whether the error of a request concerns the server, and says nothing about
// the object of the request: no answer arrived, or a server was overloaded, starting or not
// reachable. Such an error never counts as a failure of the object. Every other answer concerns the
// object.
//
// The API server answers InternalError (500) if it cannot call an admission webhook, ServerTimeout
// (500) and Timeout (504) if a request takes too long, and 500 without a reason if server-side apply
// fails for an object that violates its schema. It answers Conflict (409) about a ResourceQuota if
// many objects that the quota counts are created at the same time. The text of the answer does not
// matter.
func IsServerFault(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		var lost *url.Error
		return errors.As(err, &lost)
	}
	switch status := answer.Status(); status.Code {
	case http.StatusInternalServerError:
		return status.Reason == metav1.StatusReasonInternalError || status.Reason == metav1.StatusReasonServerTimeout
	case http.StatusConflict:
		return isQuotaConflict(err)
	default:
		return IsPutOff(int(status.Code))
	}
}

// IsPutOff reports whether the code of an answer says that a server cannot be reached or has too much
// to do.
func IsPutOff(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// isQuotaConflict reports whether the API server could not count an object for a ResourceQuota,
// because other requests changed the quota at the same time.
func isQuotaConflict(err error) bool {
	var answer apierrors.APIStatus
	return apierrors.IsConflict(err) && errors.As(err, &answer) && answer.Status().Details != nil &&
		answer.Status().Details.Kind == "resourcequotas"
}

// IsUnexplained reports whether the API server answered 500 without a reason. Server-side apply
// gives this answer for an object that violates its schema.
func IsUnexplained(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusInternalServerError && answer.Status().Reason == metav1.StatusReasonUnknown
}

// IsImpersonationRefused reports whether a request was refused because its sender may not act as the
// ServiceAccount with this name. The answer names the account instead of the object of the request. A
// refusal of a request for the account itself has the same form. Kubernetes 1.37 names the object of the
// request, so that only its text distinguishes the two refusals.
func IsImpersonationRefused(err error, account string) bool {
	var answer apierrors.APIStatus
	if account == "" || !apierrors.IsForbidden(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	named := answer.Status().Details
	return named.Group == "" && named.Kind == "serviceaccounts" && named.Name == account ||
		refusal.ImpersonationMissing.In(answer.Status().Message)
}

// IsGone reports whether the answer to a write of the object with this name says that the object does
// not exist. Admission may answer NotFound (404), too, for example a webhook that misses another
// object. The object then exists, and the answer does not name it.
func IsGone(err error, name string) bool { return apierrors.IsNotFound(err) && isAbout(err, name) }

// IsOutdated reports whether the answer to a write of the object with this name says that the object
// has changed or was replaced. Admission may answer Conflict (409), too, about another object.
func IsOutdated(err error, name string) bool { return apierrors.IsConflict(err) && isAbout(err, name) }

// isAbout reports whether an answer of the API server names the object.
func isAbout(err error, name string) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Details != nil && answer.Status().Details.Name == name
}

// WillRefuseAgain reports whether the API server's answer to an object is the same for each request
// with this object. Forbidden is not such an answer, because quotas, policies and permissions can
// change.
func WillRefuseAgain(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// ObjectReference names an object. The reference of a child has no version and no namespace, because
// the child is in the namespace of its owner.
type ObjectReference struct {
	APIVersion string
	Kind       string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
}

// String returns kind, namespace and name: "Deployment default/web". For a child, it returns kind
// and name: `Deployment "web"`.
func (r ObjectReference) String() string {
	switch {
	case r.Namespace != "":
		return r.Kind + " " + r.Namespace + "/" + r.Name
	case r.APIVersion != "":
		return r.Kind + " " + r.Name
	default:
		return fmt.Sprintf("%s %q", r.Kind, r.Name)
	}
}

// GroupVersionKind returns the kind of the object.
func (r ObjectReference) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// Identity identifies an object in all versions of its kind. The API version only says how to ask
// for an object, so it is not part of the identity.
type Identity struct {
	schema.GroupKind

	Namespace, Name string
}

// Identity returns the identity of the object.
func (r ObjectReference) Identity() Identity {
	return Identity{r.GroupVersionKind().GroupKind(), r.Namespace, r.Name}
}

// RefusedError means that the API server refused an object. It will refuse the same object again.
type RefusedError struct {
	Object ObjectReference
	Err    error
}

// Error implements error. It is one line. If the answer names fields, the line has no values of
// them. For a Secret, the line leaves out the message of the answer.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s was refused: %s", e.Object, e.reason())
}

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// maxCauses is the number of causes that the text of a RefusedError has.
const maxCauses = 3

func (e *RefusedError) reason() string {
	if e.Object.Kind == secretKind.Kind {
		return Withheld(e.Err).Error()
	}
	answer, ok := e.Err.(apierrors.APIStatus) // A wrapping error has a text of its own.
	if !ok || answer.Status().Details == nil || len(answer.Status().Details.Causes) == 0 {
		return message.OneLine(e.Err.Error())
	}
	causes := answer.Status().Details.Causes
	var texts []string
	for _, cause := range causes[:min(len(causes), maxCauses)] {
		text := withoutValue(cause.Message)
		if cause.Field != "" {
			text = cause.Field + ": " + text
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, "; ")
	if more := len(causes) - len(texts); more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// withoutValue drops the value from the message of a cause: `Invalid value: {...}: field is
// immutable` becomes `field is immutable`.
func withoutValue(text string) string {
	if strings.HasPrefix(text, "Invalid value: ") || strings.HasPrefix(text, "Duplicate value: ") {
		if i := strings.LastIndex(text, ": "); i > len("Invalid value") {
			text = text[i+2:]
		}
	}
	return message.OneLine(text)
}

// withheldError is an answer of the API server to a write of a Secret.
type withheldError struct{ answer error }

// Error implements error.
func (e *withheldError) Error() string {
	return fmt.Sprintf("the API server answered %s; its message is left out, because it may repeat values of the Secret",
		cmp.Or(apierrors.ReasonForError(e.answer), "an error without a reason"))
}

// Unwrap returns the answer.
func (e *withheldError) Unwrap() error { return e.answer }

// Withheld returns the error of a write of a Secret without the message of the API server or of
// admission, which may repeat values of the Secret. Withheld returns other errors unchanged.
func Withheld(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	return &withheldError{err}
}

// OwnershipConflictError means that an object exists and belongs to another owner. The object was
// not changed.
type OwnershipConflictError struct {
	Object ObjectReference
	// Holder describes the owner, as far as the object shows it. It is empty if a user may not know.
	Holder string
	// Remedy says what a user can do. It may be empty.
	Remedy string
	// Seen identifies the ownership of the object at the time of the conflict. It may be empty.
	Seen string
}

// Error implements error.
func (e *OwnershipConflictError) Error() string {
	text := fmt.Sprintf("%s exists already", e.Object)
	if e.Holder != "" {
		text = fmt.Sprintf("%s exists and belongs to %s", e.Object, e.Holder)
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// ReleaseKind is the kind that an OwnershipConflictError names for a Helm release.
const ReleaseKind = "Release"

// OfRelease reports whether the conflict is about a release itself.
func (e *OwnershipConflictError) OfRelease() bool { return e.Object.Kind == ReleaseKind }
