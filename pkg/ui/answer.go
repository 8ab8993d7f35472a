// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/message"
)

// maxText is the length of a text of the cluster on the page.
const maxText = 4096

// clean returns a text of the cluster in one line of limited length, without characters that change
// the order of the text on a screen.
func clean(text string) string {
	return message.Truncate(message.Printable(message.OneLine(text)), maxText)
}

// cleanError returns the text of an error; empty for nil.
func cleanError(err error) string {
	if err == nil {
		return ""
	}
	return clean(err.Error())
}

// failure is an answer that failed.
type failure struct {
	Error string `json:"error"`
}

// refuse answers a request that the server does not serve.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{text}) // A client that is gone needs no answer.
}

// fail answers with an error of the cluster, which names a missing permission.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	var unknown *inspect.UnknownKindError
	switch {
	case errors.Is(err, errID):
		code = http.StatusBadRequest
	case apierrors.IsNotFound(err), errors.As(err, &unknown):
		code = http.StatusNotFound
	case apierrors.IsForbidden(err):
		code = http.StatusForbidden
	}
	refuse(w, code, cleanError(err))
}

// answer answers with a value.
func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // A client that is gone needs no answer.
}
