// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// late is the delay of an answer that comes late. It is longer than the timeout of any request of
// the operator except requests of Helm operations.
const late = 40 * time.Second

// A fault answers a request in place of the API server.
type fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// faults are the ways in which a request fails.
var faults = map[string]fault{
	"500": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	},
	"429": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	},
	"409": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	},
	"reset before": func(http.ResponseWriter, *http.Request, http.Handler) {
		panic(http.ErrAbortHandler)
	},
	"reset after": func(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	"late": func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		timer := time.NewTimer(late)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // The client may have given up.
	},
}

// faultNames are the names of faults, sorted.
var faultNames = slices.Sorted(maps.Keys(faults))

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "refused by the test",
	})
	if err != nil {
		panic(err) // A Status can always be encoded.
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // The client may have given up.
}

// A plan says which requests of a run meet a fault.
type plan struct {
	// nth is the number of the first request, from 1; 0 for none.
	nth int
	// times is the number of requests that meet the fault, one after the other.
	times int
	fault fault
	// meets decides which of the requests from the first on meet the fault; nil for all.
	meets func(*http.Request) bool
}

// saboteur counts the requests of runs, and breaks those that the plans of the runs name.
type saboteur struct {
	mu      sync.Mutex
	runs    map[string]*requests
	watches *watchFault
	// random decides which requests of any run fail; nil for none.
	random *rand.Rand
	// stale answers lists from an old state; nil for none.
	stale *past
	// open is the number of open watches.
	open atomic.Int64
	// expiredLists are the lists that were last refused because their version is too old.
	expiredLists sync.Map
}

// requests are the requests of one run.
type requests struct {
	plan plan
	sent []string
	// met is the number of requests that met the fault, and held the number of requests without an end.
	met, held int
}

func newSaboteur() *saboteur { return &saboteur{runs: map[string]*requests{}} }

// watch begins a run in a namespace.
func (s *saboteur) watch(namespace string, plan plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[namespace] = &requests{plan: plan}
}

// sent returns the requests of a run so far.
func (s *saboteur) sent(namespace string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs[namespace].sent)
}

// met returns how many requests of a run met its fault. A run that was left out has none.
func (s *saboteur) met(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.runs[namespace]; run != nil {
		return run.met
	}
	return 0
}

// holds reports whether a fault of a run has not ended yet.
func (s *saboteur) holds(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[namespace]
	return run != nil && run.held > 0
}

// breakWatches breaks all watches that begin from now on; nil ends that.
func (s *saboteur) breakWatches(fault *watchFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = fault
}

// lagBehind answers lists from the past; nil ends that for lists that begin from now on.
func (s *saboteur) lagBehind(stale *past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = stale
}

// informerFaults returns the faults for the requests of informers.
func (s *saboteur) informerFaults() (*watchFault, *past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches, s.stale
}

// intercept implements cluster.Interceptor.
func (s *saboteur) intercept(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	watches, stale := s.informerFaults()
	resource, watching := isWatch(r)
	if watching {
		s.open.Add(1)
		defer s.open.Add(-1)
	}
	switch {
	case (stale != nil || watches != nil && watches.pages) && isStreamedList(r):
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // As API servers without this feature do.
		return
	case stale != nil && isOfInformer(r):
		stale.intercept(w, r, forward)
		return
	case watches != nil && watching:
		watches.intercept(w, r, resource, forward)
		return
	case watches != nil && watches.pages && s.breakPages(w, r, forward):
		return
	}
	fault := s.faultOf(r)
	if fault == nil {
		fault = s.randomFault(r)
	}
	if fault != nil {
		fault(w, r, forward)
		return
	}
	forward.ServeHTTP(w, r)
}

// faultOf counts a request and returns the fault that it meets; nil for none.
func (s *saboteur) faultOf(r *http.Request) fault {
	text, ok := counted(r)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, run := range s.runs {
		if !strings.Contains(text, namespace) {
			continue
		}
		run.sent = append(run.sent, strings.ReplaceAll(text, namespace, "NAMESPACE"))
		p := run.plan
		if len(run.sent) < p.nth || run.met >= p.times || p.meets != nil && !p.meets(r) {
			return nil
		}
		run.met++
		run.held++
		return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				run.held--
			}()
			p.fault(w, r, forward)
		}
	}
	return nil
}

// counted returns the text of a request that counts: all requests for objects in namespaces, except
// requests of informers and for leases. Audit records are in a namespace of their own, and their
// names have the namespace of the object.
func counted(r *http.Request) (string, bool) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := slices.Index(path, "namespaces")
	if _, watching := isWatch(r); at < 0 || watching || isOfInformer(r) || slices.Contains(path, "leases") {
		return "", false
	}
	text := r.Method + " " + strings.Join(path[at:], "/")
	if r.Method != http.MethodPost {
		return text, true
	}
	// The name of a created object is in the body alone.
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return "", false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if name := nameIn(body); name != "" {
		text += fmt.Sprintf(" (%s)", name)
	}
	return text, true
}

// nameIn returns the name of an object: protobuf or JSON if its kind is one of Kubernetes, else
// JSON.
func nameIn(body []byte) string {
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if object, err := meta.Accessor(object); err == nil {
			return object.GetName()
		}
	}
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Name
}
