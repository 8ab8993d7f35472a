// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
)

// The phases that the floor has, too, and the generation of a custom resource after its upgrade.
const (
	installPhase       = "install"
	upgradePhase       = "upgrade"
	uninstallPhase     = "uninstall"
	upgradedGeneration = 2
)

// figure is a number of a phase of one round.
type figure struct {
	phase, name, unit string
	decimals          int
	value             float64
}

// round has the figures of one round of a contender.
type round []figure

// measurement is one round of a contender while it is measured.
type measurement struct {
	*bench

	// floor is nil while an operator is measured. While the floor is measured, there are no
	// operators.
	floor     *floorProcess
	operators operators
	figures   round
}

// round runs the phases of a contender on a cluster without custom resources. The warm-up and all
// rounds but the last one have fewer phases.
func (b *bench) round(ctx context.Context, c contender, isWarmUp, isLast bool) round {
	m := &measurement{bench: b}
	if c.binary == "" {
		m.floor = b.startFloor(ctx)
	} else {
		m.operators = b.startOperator(ctx, c, nil)
	}
	m.all(ctx, installPhase, m.create, m.count, 1)
	if m.floor == nil && isLast {
		m.rest(ctx)
	}
	if m.upgrade != "" && !m.brief {
		m.all(ctx, upgradePhase, m.change, m.count, upgradedGeneration)
	}
	if m.floor != nil {
		m.all(ctx, uninstallPhase, m.remove, 0, anyState)
		b.check(m.floor.input.Close())
		b.check(m.floor.command.Wait())
		b.clear(ctx)
		return m.figures
	}
	if !isWarmUp && m.drifting != "" {
		c := m.observe(ctx, func() { m.correctDrifts(ctx, "drift", func(done int) bool { return done < m.drifts }) })
		m.addCost("drift", c, m.drifts)
		m.driftWhileInstalling(ctx)
	}
	if !isWarmUp {
		m.restart(ctx, c)
	}
	if !isWarmUp && m.newer != "" && m.resource.Resource == demoApp+"s" {
		m.rollOut(ctx, contender{binary: m.newer, replicas: c.replicas, args: c.args})
	}
	if m.brief && isLast {
		m.operators.stop()
		return m.figures
	}
	m.all(ctx, uninstallPhase, m.remove, 0, anyState)
	m.operators.stop()
	b.clear(ctx)
	return m.figures
}

// add adds a figure, and logs it, because a round may take an hour and fail.
func (m *measurement) add(phase, name, unit string, decimals int, value float64) {
	log.Printf("%s, %s: %.*f %s", phase, name, decimals, value, unit)
	m.figures = append(m.figures, figure{phase, name, unit, decimals, value})
}

// cost is the cost of a phase.
type cost struct {
	took time.Duration
	// contender is the CPU time until the contender is at rest. The remaining figures cover the
	// whole phase.
	usage
	writes, allocated float64
}

// observe runs a phase and returns its cost. The floor does not count its writes.
func (m *measurement) observe(ctx context.Context, phase func()) (c cost) {
	writes, allocated := m.operators.writes(ctx), m.operators.allocated(ctx)
	before, began := m.usage(), time.Now()
	phase()
	c.took = time.Since(began)
	during := m.usage()
	m.quiet(ctx)
	after := m.usage()
	c.usage = usage{after.contender - before.contender, during.apiServer - before.apiServer, during.others - before.others}
	c.writes, c.allocated = m.operators.writes(ctx)-writes, m.operators.allocated(ctx)-allocated
	return c
}

// quiet returns when the operator has reconciled nothing for a time, which is longer than it holds
// back the status of children that are not ready, and when the control plane uses less than half a
// core.
func (m *measurement) quiet(ctx context.Context) {
	const quietTime, half = 3 * time.Second, 1500
	last, before := -1.0, m.usage()
	m.check(poll(ctx, quietTime, func() bool {
		passes, now := m.operators.passes(ctx), m.usage()
		isQuiet := passes == last && now.apiServer+now.others < before.apiServer+before.others+half
		last, before = passes, now
		return isQuiet
	}))
}

// addCost adds the figures of a phase of a number of objects.
func (m *measurement) addCost(phase string, c cost, count int) {
	m.add(phase, "CPU for each object", "ms", 1, c.contender/float64(count))
	m.add(phase, "writes for each object", "", 2, c.writes/float64(count))
	if m.floor == nil {
		m.add(phase, "allocations for each object", "KiB", 0, c.allocated/(1<<10)/float64(count))
	}
}

// all lets send change all custom resources, and measures until a number of them is ready at a
// generation.
func (m *measurement) all(
	ctx context.Context, phase string, send func(ctx context.Context, name string) types.UID, count int, generation int64,
) {
	c := m.observe(ctx, func() {
		m.each(0, m.count, func(i int) {
			uid := send(ctx, appName(i))
			if m.floor != nil {
				m.check(m.floor.ask(job{Phase: phase, Name: appName(i), UID: uid}))
			}
		})
		if m.floor != nil {
			m.check(m.floor.await(m.count))
		}
		m.await(ctx, count, generation)
	})
	if m.floor != nil {
		c.writes = float64(m.count * len(m.plan.Writes[phase]))
	}
	m.add(phase, "time", "s", 1, c.took.Seconds())
	m.addCost(phase, c, m.count)
	m.add(phase, "API server's CPU for each object", "ms", 1, c.apiServer/float64(m.count))
	m.add(phase, "other CPU of the control plane for each object", "ms", 1, c.others/float64(m.count))
	if m.floor == nil {
		m.add(phase, "peak memory", "MiB", 0, m.operators.peakMemory())
	}
}

// rest observes the operator when nothing happens.
func (m *measurement) rest(ctx context.Context) {
	c := m.observe(ctx, func() {
		select {
		case <-time.After(m.idle):
		case <-ctx.Done():
			m.check(ctx.Err())
		}
	})
	m.add("rest", "CPU for each minute, all objects", "s", 2, c.contender/1000*time.Minute.Seconds()/c.took.Seconds())
	m.add("rest", "writes, all objects", "", 0, c.writes)
}

// driftWhileInstalling measures drift while further custom resources are installed, and uninstalls
// those.
func (m *measurement) driftWhileInstalling(ctx context.Context) {
	end := m.count + m.installing
	var creating sync.WaitGroup
	creating.Go(func() { m.each(m.count, end, func(i int) { m.create(ctx, appName(i)) }) })
	m.correctDrifts(ctx, "drift while installing", func(done int) bool { return done == 0 || m.ready(1) < end })
	creating.Wait()
	m.await(ctx, end, 1)
	m.each(m.count, end, func(i int) { m.remove(ctx, appName(i)) })
	m.await(ctx, m.count, anyState)
	m.quiet(ctx)
}

// correctDrifts changes the children of custom resources, one after another, as long as more says
// so, and adds the times of the corrections. After each change, it does the same with an object
// that no operator has, and corrects that object itself. No operator can be faster.
func (m *measurement) correctDrifts(ctx context.Context, phase string, more func(done int) bool) {
	const passes = `controller_reconcile_duration_seconds_%s\{.*reason="Drift".*\}`
	took, count := fmt.Sprintf(passes, "sum"), fmt.Sprintf(passes, "count")
	tookBefore, countBefore := m.operators.metric(ctx, took), m.operators.metric(ctx, count)
	m.applyProbe(ctx)
	var times, least []time.Duration
	for i := 0; more(i); i++ {
		child := drifting{path: strings.ReplaceAll(m.drifting, sampleName, appName(i%m.count)), field: m.driftedField}
		times = append(times, m.correctDrift(ctx, child, func() {}))
		least = append(least, m.correctDrift(ctx, drifting{path: probePath, field: probeField}, func() { m.applyProbe(ctx) }))
	}
	m.addTimes(phase, "", times)
	m.addTimes(phase, "least ", least)
	const inMilliseconds = 1000
	pass := (m.operators.metric(ctx, took) - tookBefore) / (m.operators.metric(ctx, count) - countBefore)
	m.add(phase, "mean time of a pass", "ms", 0, pass*inMilliseconds)
	m.add(phase, "corrections", "", 0, float64(len(times)))
}

// addTimes adds the figures of times.
func (m *measurement) addTimes(phase, of string, times []time.Duration) {
	slices.Sort(times)
	for i, name := range []string{"median time", "95 of 100 within", "99 of 100 within"} {
		percent := []int{50, 95, 99}[i]
		m.add(phase, of+name, "ms", 0, float64(times[(len(times)*percent+99)/100-1].Milliseconds()))
	}
}

// drifting is a text field of an object, which the benchmark changes.
type drifting struct {
	path  string
	field []string
}

// probe is the object that the benchmark corrects itself.
const probePath = "/api/v1/namespaces/" + namespace + "/configmaps/probe"

var probeField = []string{"data", "text"}

// applyProbe creates or corrects the probe.
func (m *measurement) applyProbe(ctx context.Context) {
	const probe = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe"},"data":{"text":"desired"}}`
	m.check(m.client().Patch(types.ApplyPatchType).AbsPath(probePath).Param("fieldManager", "probe").Param("force", "true").
		Body([]byte(probe)).Do(ctx).Error())
}

// correctDrift changes a field, calls correct when a watch shows the change, and returns the time
// from the API server's answer to the change until the watch shows the correction.
func (m *measurement) correctDrift(ctx context.Context, d drifting, correct func()) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	changed := map[string]any{}
	m.check(unstructured.SetNestedField(changed, driftedText, d.field...))
	patch, err := json.Marshal(changed)
	m.check(err)
	events, err := m.client().Get().AbsPath(path.Dir(d.path)).Param("watch", "true").
		Param("fieldSelector", "metadata.name="+path.Base(d.path)).SetHeader("Accept", "application/json").Stream(ctx)
	m.check(err)
	defer events.Close()
	watch := json.NewDecoder(events)
	isDrifted := func() bool {
		var event struct{ Object map[string]any }
		m.check(watch.Decode(&event))
		text, _, _ := unstructured.NestedString(event.Object, d.field...)
		return text == driftedText
	}
	isDrifted() // The first event has the object before the change.
	m.check(m.client().Patch(types.MergePatchType).AbsPath(d.path).Body(patch).Do(ctx).Error())
	began := time.Now()
	for !isDrifted() { // Other changes may come first.
	}
	correct()
	for isDrifted() {
	}
	return time.Since(began)
}

// restart measures the time from the start of a new process until it has reconciled every custom
// resource once.
func (m *measurement) restart(ctx context.Context, c contender) {
	owners := 0
	for _, resource := range m.involved {
		list, err := m.cluster.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		m.check(err)
		owners += len(list.Items)
	}
	took := m.replace(ctx, c, func() bool {
		return int(m.operators.passes(ctx)) >= owners && m.operators.metric(ctx, `workqueue_depth\{.*\}`) == 0
	})
	m.add("restart", "time until caught up", "s", 1, took.Seconds())
	m.addSinceStart(ctx, "restart")
	m.add("restart", "peak memory", "MiB", 0, m.operators.peakMemory())
	m.quiet(ctx)
}

// rollOut replaces the operator by one with a newer chart, and measures until that has upgraded all
// custom resources.
func (m *measurement) rollOut(ctx context.Context, newer contender) {
	const phase = "newer chart"
	took := m.replace(ctx, newer, func() bool {
		return int(m.operators.metric(ctx, `helm_operations_total\{action="upgrade",result="success"\}`)) == m.count
	})
	m.quiet(ctx)
	m.add(phase, "time", "s", 1, took.Seconds())
	m.addSinceStart(ctx, phase)
}

// replace replaces the operator, and returns the time from the start of the new process until it is
// done.
func (m *measurement) replace(ctx context.Context, c contender, done func() bool) time.Duration {
	m.operators.stop()
	began := time.Now()
	m.operators = m.startOperator(ctx, c, nil)
	m.check(poll(ctx, 50*time.Millisecond, done))
	return time.Since(began)
}

// addSinceStart adds the operator's cost since its start.
func (m *measurement) addSinceStart(ctx context.Context, phase string) {
	m.addCost(phase, cost{usage: m.usage(), writes: m.operators.writes(ctx), allocated: m.operators.allocated(ctx)}, m.count)
}

// contender is a program that is measured: the floor, which has no binary, or an operator.
type contender struct {
	name, binary string
	// replicas and args describe an operator.
	replicas int
	args     []string
}

// operators are the replicas of an operator. Their figures are added up. There are no operators
// while the floor is measured.
type operators struct {
	*bench

	replicas []*cluster.Operator
}

// startOperator starts an operator and waits until it is ready. Without a proxy, it connects to the
// API server. A replica that does not become ready ends the benchmark.
func (b *bench) startOperator(ctx context.Context, c contender, proxy *cluster.Proxy) (o operators) {
	o.bench = b
	for range c.replicas {
		// A periodic resync within a phase would be counted as a cost of the phase.
		args := []string{fmt.Sprintf("--workers=%d", b.workers), "--leader-elect=false", "--resync-period=24h"}
		launch := cluster.Launch{
			Binary: c.binary, Proxy: proxy, Args: slices.Concat(args, b.flags, c.args),
			// Tests look for changes to cached objects, which costs CPU time and memory. The GOGC of the
			// environment is for the control plane.
			Env: []string{"KUBE_CACHE_MUTATION_DETECTOR=false", "GOGC=100"},
		}
		o.replicas = append(o.replicas, launch.Start(ctx, b.t, b.cluster))
	}
	for _, replica := range o.replicas {
		replica.AwaitReady(ctx, b.t)
	}
	return o
}

func (o operators) stop() {
	for _, replica := range o.replicas {
		replica.Stop()
	}
}

// metric adds up the samples of a metric. The pattern is a regular expression for its name and its
// labels.
func (o operators) metric(ctx context.Context, pattern string) (total float64) {
	for _, replica := range o.replicas {
		text, err := replica.Metrics(ctx)
		o.check(err)
		total += sumOf(text, pattern)
	}
	return total
}

func sumOf(metrics, pattern string) (total float64) {
	for _, found := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		sample, _ := strconv.ParseFloat(found[1], 64)
		total += sample
	}
	return total
}

// writesMetric selects the requests without lists and watches, which are the only GET requests.
const writesMetric = `rest_client_requests_total\{.*method="(?:POST|PUT|PATCH|DELETE)".*\}`

func (o operators) writes(ctx context.Context) float64 { return o.metric(ctx, writesMetric) }

// allocated returns the bytes that the operators have allocated since their start.
func (o operators) allocated(ctx context.Context) float64 {
	return o.metric(ctx, `go_memstats_alloc_bytes_total`)
}

// passes returns the number of reconciled objects. Unlike writes, it does not count leases.
func (o operators) passes(ctx context.Context) float64 {
	return o.metric(ctx, `controller_reconcile_total\{.*\}`)
}

// peakMemory is the most memory that the operators have held since their start, in MiB.
func (o operators) peakMemory() (total float64) {
	for _, replica := range o.replicas {
		peak, err := replica.PeakMemory()
		o.check(err)
		total += float64(peak) / (1 << 20)
	}
	return total
}

// usage is the CPU time that the contender, the API server and the rest of the control plane have
// used, in milliseconds.
type usage struct {
	contender, apiServer, others float64
}

// usage adds up the CPU times of the descendants of this process.
func (m *measurement) usage() (u usage) {
	var contender []int
	for _, replica := range m.operators.replicas {
		contender = append(contender, replica.PID())
	}
	if m.floor != nil {
		contender = []int{m.floor.command.Process.Pid}
	}
	processes, err := procfs.AllProcs()
	m.check(err)
	stats := map[int]procfs.ProcStat{}
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil { // The other processes have ended.
			stats[p.PID] = stat
		}
	}
	for pid, stat := range stats {
		ancestor := stat.PPID
		for ancestor != os.Getpid() && ancestor != 0 {
			ancestor = stats[ancestor].PPID
		}
		const inMilliseconds = 1000
		cpu := stat.CPUTime() * inMilliseconds
		switch {
		case ancestor == 0:
		case slices.Contains(contender, pid):
			u.contender += cpu
		case stat.Comm == "kube-apiserver":
			u.apiServer += cpu
		default:
			u.others += cpu
		}
	}
	return u
}
