// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// leastWrites returns the writes that no operator can do without: each object once, and of each status the first and the
// last version. The last versions are apart: they say that the children are ready.
func leastWrites(recorded []write) (install, ready []write) {
	last := map[string]int{}
	for i, w := range recorded {
		last[w.target()] = i
	}
	seen := map[string]bool{}
	for i, w := range recorded {
		target := w.target()
		switch {
		case w.isStatus() && last[target] == i:
			ready = append(ready, w)
		case !seen[target]:
			install = append(install, w)
		}
		seen[target] = true
	}
	return install, ready
}

// ownersIn returns the number of objects whose status is written.
func ownersIn(recorded []write) int {
	owners := map[string]bool{}
	for _, w := range recorded {
		if w.isStatus() {
			owners[w.target()] = true
		}
	}
	return len(owners)
}

// kindFloor sends the writes of a sample for other objects.
type kindFloor struct {
	sender         *floor
	sample         types.UID
	install, ready []write
	// owners are the UIDs of the sample that its writes name.
	owners map[types.UID]bool
	// ids are the UIDs of each custom resource and of its children that own others, by those of the sample.
	ids sync.Map
}

func newKindFloor(sender *floor, s sample) *kindFloor {
	f := &kindFloor{sender: sender, sample: s.uid, owners: map[types.UID]bool{}}
	f.install, f.ready = leastWrites(s.writes)
	for _, of := range s.writes {
		for _, w := range s.writes {
			if of.uid != "" && of.target() != w.target() && bytes.Contains(w.body, []byte(of.uid)) {
				f.owners[of.uid] = true
			}
		}
	}
	return f
}

// onlyMetadata asks for metadata that has a UID to read.
const onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// created tells the floor of a custom resource.
func (f *kindFloor) created(name string, uid types.UID) {
	f.ids.Store(name, map[types.UID]types.UID{f.sample: uid})
}

func (f *kindFloor) idsOf(name string) map[types.UID]types.UID {
	ids, _ := f.ids.Load(name)
	return ids.(map[types.UID]types.UID)
}

// send sends writes for a custom resource, one after another. It reads the answers that have the UID of an owner.
func (f *kindFloor) send(ctx context.Context, writes []write, name string) error {
	ids := f.idsOf(name)
	for _, w := range writes {
		path, body := w.as(name, ids)
		if w.query != "" {
			path += "?" + w.query
		}
		if _, known := ids[w.uid]; known || !f.owners[w.uid] {
			if err := f.sender.send(ctx, w.method, path, w.contentType, body); err != nil {
				return err
			}
			continue
		}
		var answer bytes.Buffer
		if err := f.sender.exchange(ctx, w.method, path, w.contentType, onlyMetadata, body, &answer); err != nil {
			return err
		}
		uid := uidIn(answer.Bytes())
		if uid == "" {
			return fmt.Errorf("%s %s: the answer has no UID: %s", w.method, path, &answer)
		}
		ids[w.uid] = uid
	}
	return nil
}

// as returns the path and the body of the write for another custom resource, which is in floorNamespace.
func (w write) as(name string, ids map[types.UID]types.UID) (path string, body []byte) {
	path = strings.Replace(w.path, "/namespaces/"+benchNamespace+"/", "/namespaces/"+floorNamespace+"/", 1)
	path = strings.ReplaceAll(path, sampleName, name)
	body = bytes.ReplaceAll(w.body, []byte(sampleName), []byte(name))
	sampled, live := namespaceField(w.contentType, benchNamespace), namespaceField(w.contentType, floorNamespace)
	body = bytes.ReplaceAll(body, sampled, live)
	for sampled, live := range ids {
		body = bytes.ReplaceAll(body, []byte(sampled), []byte(live))
	}
	return path, body
}

// namespaceField returns the field metadata.namespace as it is serialized. A serialization as protobuf has the lengths of
// texts, so names, namespaces and UIDs are replaced by others of the same length.
func namespaceField(contentType, namespace string) []byte {
	if contentType == runtime.ContentTypeProtobuf {
		const number = 3
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), namespace)
	}
	return []byte(`"namespace":"` + namespace + `"`)
}

// installTimes are what an install of all custom resources takes, from the first create on.
type installTimes struct {
	applied, ready, pods time.Duration
	// cpu is the CPU time of each program until then.
	cpu map[string]time.Duration
}

// runFloor measures the floor with a number of custom resources, and removes them.
func (b *kindsBench) runFloor(ctx context.Context, count int) (t installTimes, err error) {
	b.size = count
	sender, err := b.newFloor()
	if err != nil {
		return t, err
	}
	f := newKindFloor(sender, b.sample)
	before, err := cpuByName()
	if err != nil {
		return t, err
	}
	started := time.Now()
	pods := b.awaitPods(ctx, floorNamespace, started)
	if t.applied, err = b.work(ctx, func(then func(string)) error {
		return b.createAll(ctx, floorNamespace, f.created, then)
	}, func(ctx context.Context, name string) error { return f.send(ctx, f.install, name) }); err != nil {
		return t, err
	}
	said, err := b.work(ctx, func(then func(string)) error {
		for i := range count {
			then(appName(i))
		}
		return nil
	}, func(ctx context.Context, name string) error { return f.send(ctx, f.ready, name) })
	if err != nil {
		return t, err
	}
	t.ready = t.applied + said
	if t.pods, err = pods(); err != nil {
		return t, err
	}
	after, err := cpuByName()
	if err != nil {
		return t, err
	}
	t.cpu = growth(before, after)
	return t, b.clearKinds(ctx)
}

// clearKinds removes the custom resources and their children. No operator runs that would remove finalizers.
func (b *kindsBench) clearKinds(ctx context.Context) error {
	for _, resource := range b.subject.involved {
		resources := b.cluster.Dynamic.Resource(resource).Namespace(floorNamespace)
		list, err := resources.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var errs []error
		for _, object := range list.Items {
			if len(object.GetFinalizers()) > 0 {
				none := []byte(`{"metadata":{"finalizers":null}}`)
				_, err := resources.Patch(ctx, object.GetName(), types.MergePatchType, none, metav1.PatchOptions{})
				errs = append(errs, err)
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if err := b.clear(ctx); err != nil {
		return err
	}
	return b.applyBeside(ctx)
}
