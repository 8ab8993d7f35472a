// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// write is a request of the operator that creates, changes or deletes objects of the benchmark's
// namespace, or its audit records.
type write struct {
	Method, Path, Query, ContentType string
	// Accept is the header of a deletion, which may be answered with a status or a list.
	Accept string
	Body   []byte
	// Target is the path of the object, which the path of a create does not name.
	Target string
	// UID is the UID of the object, if other writes have it, for example in owner references.
	UID types.UID
}

func (w write) isStatus() bool { return strings.HasSuffix(w.Path, "/status") }

// recorder records the writes of an operator behind a proxy.
type recorder struct {
	mu     sync.Mutex
	writes []write
}

// record is for cluster.Proxy.Refuse; it refuses no request. It records writes of objects in the
// namespace, and of audit records.
func (r *recorder) record(request *http.Request) bool {
	path := request.URL.Path
	isWrite := request.Method != http.MethodGet
	isInside := strings.Contains(path, "/namespaces/"+namespace+"/") || strings.Contains(path, "/namespaces/"+auditNamespace+"/")
	// Events are written apart from the work.
	if !isWrite || !isInside || strings.Contains(path, "/events") {
		return false
	}
	// A request that cannot be read fails at the API server.
	body, _ := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	w := write{
		Method: request.Method, Path: path, Query: request.URL.RawQuery,
		ContentType: request.Header.Get("Content-Type"), Body: body,
	}
	if w.Method == http.MethodDelete {
		w.Accept = request.Header.Get("Accept")
	}
	r.writes = append(r.writes, w.forAny())
	return false
}

// take returns the writes since the last call that no operator can do without.
func (r *recorder) take() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := leastWrites(r.writes)
	r.writes = nil
	return writes
}

// forAny removes the parts that hold for one object only, its UID and its resourceVersion, also as
// preconditions, and sets the target. It leaves bodies as they are that are not objects, such as
// JSON patches.
func (w write) forAny() write {
	w.Target = w.Path
	name := ""
	if fields := fieldsOf(w.Body); fields != nil {
		about, _ := fields["metadata"].(map[string]any)
		name, _ = about["name"].(string)
		delete(about, "uid")
		if about["resourceVersion"] != ssa.NeverResourceVersion {
			delete(about, "resourceVersion")
		}
		if w.Method == http.MethodDelete {
			delete(fields, "preconditions")
		}
		if body, err := json.Marshal(fields); err == nil {
			w.Body = body
		}
	} else if object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(w.Body, nil, nil); err == nil {
		if options, ok := object.(*metav1.DeleteOptions); ok {
			options.Preconditions = nil
		} else if about, err := meta.Accessor(object); err == nil {
			name = about.GetName()
			about.SetUID("")
			about.SetResourceVersion("")
		}
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), w.ContentType)
		if body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()), object); err == nil {
			w.Body = body
		}
	}
	if w.Method == http.MethodPost {
		w.Target += "/" + name
	}
	return w
}

// fieldsOf returns the fields of an object in JSON; nil for other content, such as a JSON patch.
func fieldsOf(body []byte) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var fields map[string]any
	if decoder.Decode(&fields) != nil {
		return nil
	}
	return fields
}

// leastWrites returns each write once, and of each status the first and the last version.
func leastWrites(recorded []write) []write {
	key := func(w write) string { return w.Method + " " + w.Target }
	last := map[string]int{}
	for i, w := range recorded {
		last[key(w)] = i
	}
	seen := map[string]bool{}
	var least []write
	for i, w := range recorded {
		if !seen[key(w)] || w.isStatus() && last[key(w)] == i {
			least = append(least, w)
		}
		seen[key(w)] = true
	}
	return least
}

// readUIDs sets the UIDs that other writes need. The objects are the objects of the sample, which
// still exist.
func (b *bench) readUIDs(ctx context.Context, writes []write) {
	for i, w := range writes {
		if w.isStatus() {
			continue
		}
		answer, err := b.client().Get().AbsPath(w.Target).SetHeader("Accept", onlyMetadata).DoRaw(ctx)
		b.check(err)
		uid := uidIn(answer)
		if slices.ContainsFunc(writes, func(other write) bool {
			return other.Target != w.Target && bytes.Contains(other.Body, []byte(uid))
		}) {
			writes[i].UID = uid
		}
	}
}

// uidIn returns the UID of an object in JSON.
func uidIn(answer []byte) types.UID {
	about, _ := fieldsOf(answer)["metadata"].(map[string]any)
	uid, _ := about["uid"].(string)
	return types.UID(uid)
}

// as returns the write for another custom resource. A serialization as protobuf has the lengths of
// texts, so the new names and UIDs have the length of the old ones.
func (w write) as(name string, uids map[types.UID]types.UID) write {
	w.Path, w.Query = strings.ReplaceAll(w.Path, sampleName, name), strings.ReplaceAll(w.Query, sampleName, name)
	w.Body = bytes.ReplaceAll(w.Body, []byte(sampleName), []byte(name))
	for sampled, live := range uids {
		w.Body = bytes.ReplaceAll(w.Body, []byte(sampled), []byte(live))
	}
	return w
}

// driftedText is the value of a field that drifted.
const driftedText = "drifted"

// driftOf returns the path of a child of the sample, and the path of a field that its controller
// corrects: a text of a ConfigMap, or else a label in the selector of a Service.
func driftOf(writes []write) (target string, field []string) {
	for _, candidate := range [][]string{{"ConfigMap", "data"}, {"Service", "spec", "selector"}} {
		for _, w := range writes {
			object, path := fieldsOf(w.Body), candidate[1:]
			texts, _, _ := unstructured.NestedStringMap(object, path...)
			for _, key := range slices.Sorted(maps.Keys(texts)) {
				if object["kind"] == candidate[0] && !strings.Contains(key, sampleName) {
					return w.Target, append(slices.Clone(path), key)
				}
			}
		}
	}
	return "", nil
}

// plan has the requests of the floor.
type plan struct {
	Kubeconfig string
	Workers    int
	// Sample is the UID of the sample.
	Sample types.UID
	// Writes are the writes of the sample, by phase.
	Writes map[string][]write
}

// job asks the floor for the writes of a phase for a custom resource.
type job struct {
	Phase, Name string
	UID         types.UID
}

// floor sends the writes of an object one after another, as any operator must. It decides nothing,
// and reads only the UIDs that later writes need.
type floor struct {
	plan
	server string
	client *http.Client
	// uids has the UIDs of the objects of each custom resource by the UIDs of the sample.
	uids sync.Map
}

// serveFloor reads the plan, does jobs until the end of its input, and answers each job with the
// name. Its connections speak HTTP/1.1: one for each worker costs both sides less CPU time than
// streams of one HTTP/2 connection.
func serveFloor(ctx context.Context, in io.Reader, out io.Writer) {
	jobs, answers := json.NewDecoder(in), json.NewEncoder(out)
	f := &floor{}
	exitOn(jobs.Decode(&f.plan))
	config, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	exitOn(err)
	config.NextProtos = []string{"http/1.1"}
	f.client, err = rest.HTTPClientFor(config)
	exitOn(err)
	f.server = strings.TrimSuffix(config.Host, "/")
	var reading, answering sync.Mutex
	var workers sync.WaitGroup
	for range f.Workers {
		workers.Go(func() {
			for {
				var j job
				reading.Lock()
				err := jobs.Decode(&j)
				reading.Unlock()
				if errors.Is(err, io.EOF) {
					return
				}
				exitOn(err)
				f.do(ctx, j)
				answering.Lock()
				exitOn(answers.Encode(j.Name))
				answering.Unlock()
			}
		})
	}
	workers.Wait()
}

// exitOn ends the floor after an error.
func exitOn(err error) {
	if err != nil {
		log.Fatalf("floor: %v", err)
	}
}

// do sends the writes of a job.
func (f *floor) do(ctx context.Context, j job) {
	stored, _ := f.uids.LoadOrStore(j.Name, map[types.UID]types.UID{f.Sample: j.UID})
	uids := stored.(map[types.UID]types.UID)
	for _, w := range f.Writes[j.Phase] {
		if w.UID == "" || uids[w.UID] != "" {
			f.send(ctx, w.as(j.Name, uids), cmp.Or(w.Accept, leastAnswer))
		} else {
			uids[w.UID] = uidIn(f.send(ctx, w.as(j.Name, uids), onlyMetadata))
		}
	}
}

// onlyMetadata asks for metadata that has a UID to read, and leastAnswer for the smallest answer
// that the API server gives.
const (
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	leastAnswer  = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// send sends a write and returns the answer.
func (f *floor) send(ctx context.Context, w write, accept string) []byte {
	request, err := http.NewRequestWithContext(ctx, w.Method, f.server+w.Path+"?"+w.Query, bytes.NewReader(w.Body))
	exitOn(err)
	request.Header.Set("Content-Type", w.ContentType)
	request.Header.Set("Accept", accept)
	response, err := f.client.Do(request)
	exitOn(err)
	defer response.Body.Close()
	// A connection goes back to the pool when its answer has been read.
	answer, err := io.ReadAll(response.Body)
	exitOn(err)
	if response.StatusCode >= http.StatusMultipleChoices {
		exitOn(fmt.Errorf("%s %s: %s: %s", w.Method, w.Path, response.Status, answer))
	}
	return answer
}

// floorProcess is a floor in a process of its own, so that its CPU time is known.
type floorProcess struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  io.ReadCloser
	mu      sync.Mutex
}

// startFloor starts this program as a floor, which ends with its input, and so with this process.
func (b *bench) startFloor(ctx context.Context) *floorProcess {
	program, err := os.Executable()
	b.check(err)
	f := &floorProcess{command: exec.CommandContext(ctx, program, floorName)}
	f.command.Stderr = os.Stderr
	f.input, err = f.command.StdinPipe()
	b.check(err)
	f.output, err = f.command.StdoutPipe()
	b.check(err)
	b.check(f.command.Start())
	b.check(json.NewEncoder(f.input).Encode(b.plan))
	return f
}

// ask hands a job to the floor.
func (f *floorProcess) ask(j job) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return json.NewEncoder(f.input).Encode(j)
}

// await returns when the floor has done a number of jobs for names of the same length.
func (f *floorProcess) await(count int) error {
	_, err := io.CopyN(io.Discard, f.output, int64(count*len(`"`+sampleName+"\"\n")))
	return err
}
