// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// maxRequest is the size of a request for an action.
const maxRequest = 4 << 10

// actionRequest is the request of a user.
type actionRequest struct {
	Action inspect.Action `json:"action"`
	// Reason says why the object is suspended; optional.
	Reason string `json:"reason"`
}

// actionView is the answer to a request. Warnings say why it may have another effect than the user
// expects.
type actionView struct {
	Changed  bool     `json:"changed"`
	Warnings []string `json:"warnings,omitempty"`
}

// act writes a request of the user to an object.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	request := actionRequest{}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "the request must be JSON with action and reason")
		return
	}
	if !slices.Contains([]inspect.Action{inspect.Reconcile, inspect.Retry, inspect.Suspend, inspect.Resume}, request.Action) {
		refuse(w, http.StatusBadRequest, "action: must be reconcile, retry, suspend or resume")
		return
	}
	object, err := s.object(r)
	if err != nil {
		fail(w, err)
		return
	}
	outcome, err := s.cluster().Do(r.Context(), object, inspect.Request{Action: request.Action, Reason: request.Reason, At: s.Now()})
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, actionView{Changed: outcome.Changed, Warnings: cleaned(outcome.Warnings)})
}
