// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// AuditEvent is one request as the API server logged it.
type AuditEvent struct {
	// ID identifies the request.
	ID string
	// User is the authenticated user's name.
	User string
	// ImpersonatedUser is the name of the user that the request is sent as; empty if that is User.
	ImpersonatedUser string
	// Credential identifies the token of the request, and so the process that sent the request; see
	// Operator.Credential. It is empty for other credentials.
	Credential string
	// UserAgent is the client's User-Agent header.
	UserAgent string
	// Verb is the verb that RBAC decides on: get, list, watch, create, update, patch, delete or
	// deletecollection. For a URL outside of the API, Verb is the HTTP method in lower case.
	Verb string
	// URI is the path and query as sent.
	URI string
	// Group, Resource, Subresource, Namespace and Name are the parts of the URI; empty where the
	// URI names none.
	Group, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status; 0 while a watch is open.
	Code int
	// Received is the time of the request. Completed is the time of the answer, zero while a watch
	// is open.
	Received, Completed time.Time
}

// credentialExtra is the extra field of a user that has the ID of the token of a ServiceAccount.
const credentialExtra = "authentication.kubernetes.io/credential-id"

// writeVerbs are the verbs that change objects.
var writeVerbs = sets.New("create", "update", "patch", "delete", "deletecollection")

// IsWrite reports whether the request may change objects. Reviews of tokens and permissions are
// created, but not stored.
func (e AuditEvent) IsWrite() bool {
	return writeVerbs.Has(e.Verb) && !strings.HasSuffix(e.Resource, "reviews")
}

// AuditFilter selects requests; nil selects all.
type AuditFilter func(AuditEvent) bool

// ByServiceAccount selects the requests of a ServiceAccount.
func ByServiceAccount(namespace, name string) AuditFilter {
	user := fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)
	return func(event AuditEvent) bool { return event.User == user }
}

// AuditRequests returns the requests that filter selects and that were received at since or later.
// Each request appears once, in the order of the first log entries. A request is in the log when
// its client has the answer, a watch when it has begun. AuditRequests needs Options.Audit.
func (c *Cluster) AuditRequests(since time.Time, filter AuditFilter) ([]AuditEvent, error) {
	requests, _, err := c.audit.requests(0, func(event AuditEvent) bool {
		return !event.Received.Before(since) && (filter == nil || filter(event))
	})
	return requests, err
}

// AwaitAuditQuiet waits until filter has selected no request for the duration quiet. A watch is a
// request when it begins.
func (c *Cluster) AwaitAuditQuiet(ctx context.Context, quiet time.Duration, filter AuditFilter) error {
	// The duration begins with the call at the earliest, since a request may be about to be sent.
	newest, seen := time.Now(), 0
	for {
		requests, logged, err := c.audit.requests(seen, func(event AuditEvent) bool {
			return event.end().After(newest) && (filter == nil || filter(event))
		})
		if err != nil {
			return err
		}
		for _, request := range requests {
			if end := request.end(); end.After(newest) {
				newest = end
			}
		}
		seen = logged
		left := quiet - time.Since(newest)
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("there was no time of %s without requests: %w", quiet, context.Cause(ctx))
		case <-time.After(left):
		}
	}
}

// AwaitAuditRequest waits until filter has selected a request that was received at since or later.
func (c *Cluster) AwaitAuditRequest(ctx context.Context, t testing.TB, what string, since time.Time, filter AuditFilter) {
	t.Helper()
	seen := 0
	Eventually(ctx, t, what, func(context.Context) (bool, error) {
		requests, logged, err := c.audit.requests(seen, func(event AuditEvent) bool {
			return !event.Received.Before(since) && filter(event)
		})
		seen = logged
		return len(requests) > 0, err
	})
}

// end returns the time of the answer, or for an open watch the time of the request.
func (e AuditEvent) end() time.Time {
	if e.Completed.IsZero() {
		return e.Received
	}
	return e.Completed
}

// auditLog reads each line of a growing audit log once.
type auditLog struct {
	path string

	mu     sync.Mutex
	offset int64
	events []AuditEvent
	byID   map[string]int
}

// maxAuditLine bounds the length of a line of the audit log, in bytes.
const maxAuditLine = 1 << 20

// newAuditLog returns a reader of the requests that are logged from now on. Without a path, reading
// fails.
func newAuditLog(path string) (*auditLog, error) {
	log := &auditLog{path: path}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return log, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	tail := make([]byte, min(size, maxAuditLine))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	// The last line may be incomplete.
	log.offset = size - int64(len(tail)) + int64(bytes.LastIndexByte(tail, '\n')+1)
	return log, nil
}

// requests returns those that filter selects of all requests but the first ones, and the number of
// all requests that are logged so far.
func (l *auditLog) requests(first int, filter AuditFilter) (selected []AuditEvent, logged int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	for _, event := range l.events[first:] {
		if filter(event) {
			selected = append(selected, event)
		}
	}
	return selected, len(l.events), nil
}

// read adds the lines that were logged since the last call.
func (l *auditLog) read() error {
	if l.path == "" {
		return errors.New("the control plane writes none; start it with Options.Audit")
	}
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<62))
	if err != nil {
		return err
	}
	// The line after the last line break is still being written.
	complete := content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range bytes.Lines(complete) {
		if err := l.add(line); err != nil {
			return err
		}
	}
	l.offset += int64(len(complete))
	return nil
}

// add merges one line. A watch has two lines: one for its begin and one for its end.
func (l *auditLog) add(line []byte) error {
	event, err := parseAuditEvent(line)
	if err != nil {
		return err
	}
	if l.byID == nil {
		l.byID = map[string]int{}
	}
	index, known := l.byID[event.ID]
	if !known {
		l.byID[event.ID] = len(l.events)
		l.events = append(l.events, event)
		return nil
	}
	if !event.Completed.IsZero() {
		l.events[index] = event
	}
	return nil
}

// parseAuditEvent reads a line in the format of audit.k8s.io/v1.
func parseAuditEvent(line []byte) (AuditEvent, error) {
	var logged struct {
		AuditID string `json:"auditID"`
		Stage   string `json:"stage"`
		URI     string `json:"requestURI"`
		Verb    string `json:"verb"`
		User    struct {
			Username string              `json:"username"`
			Extra    map[string][]string `json:"extra"`
		} `json:"user"`
		ImpersonatedUser struct {
			Username string `json:"username"`
		} `json:"impersonatedUser"`
		UserAgent string `json:"userAgent"`
		ObjectRef struct {
			Resource    string `json:"resource"`
			Namespace   string `json:"namespace"`
			Name        string `json:"name"`
			APIGroup    string `json:"apiGroup"`
			Subresource string `json:"subresource"`
		} `json:"objectRef"`
		ResponseStatus struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
		Received time.Time `json:"requestReceivedTimestamp"`
		Staged   time.Time `json:"stageTimestamp"`
	}
	if err := json.Unmarshal(line, &logged); err != nil {
		return AuditEvent{}, fmt.Errorf("parse %q: %w", line, err)
	}
	event := AuditEvent{
		ID:               logged.AuditID,
		User:             logged.User.Username,
		Credential:       strings.Join(logged.User.Extra[credentialExtra], ","),
		ImpersonatedUser: logged.ImpersonatedUser.Username,
		UserAgent:        logged.UserAgent,
		Verb:             logged.Verb,
		URI:              logged.URI,
		Group:            logged.ObjectRef.APIGroup,
		Resource:         logged.ObjectRef.Resource,
		Subresource:      logged.ObjectRef.Subresource,
		Namespace:        logged.ObjectRef.Namespace,
		Name:             logged.ObjectRef.Name,
		Received:         logged.Received,
	}
	if logged.Stage == "ResponseComplete" || logged.Stage == "Panic" {
		event.Code, event.Completed = logged.ResponseStatus.Code, logged.Staged
	}
	return event, nil
}
