// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the unit of CPU times in /proc, in every Linux build of Go's supported platforms.
const clockTicks = 100

// processStat is what /proc says about a process.
type processStat struct {
	pid, parent int
	// name has the first 15 characters of the program's name.
	name string
	cpu  time.Duration
}

// parseStat reads the content of /proc/<pid>/stat.
func parseStat(text string) (processStat, error) {
	// The name in parentheses may contain spaces and parentheses; what follows it does not.
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return processStat{}, fmt.Errorf("unexpected /proc/stat %q", text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 13 {
		return processStat{}, fmt.Errorf("unexpected /proc/stat %q", text)
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, err2 := strconv.Atoi(fields[1])
	user, err3 := strconv.Atoi(fields[11])
	system, err4 := strconv.Atoi(fields[12])
	return processStat{
		pid: pid, parent: parent, name: text[open+1 : end], cpu: time.Duration(user+system) * time.Second / clockTicks,
	}, errors.Join(err1, err2, err3, err4)
}

// ownCPU is the CPU time that this process has used.
func ownCPU() (time.Duration, error) { return cpuOf(os.Getpid()) }

func cpuOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	stat, err := parseStat(string(data))
	return stat.cpu, err
}

// ownName stands for this process, whose program may have any name.
const ownName = "self"

// cpuByName returns the CPU times of this process and of those that descend from it, by the names of their programs.
func cpuByName() (map[string]time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var stats []processStat
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // The process has ended.
		}
		stat, err := parseStat(string(data))
		if err != nil {
			return nil, err
		}
		stats = append(stats, stat)
	}
	return familyCPU(stats, os.Getpid()), nil
}

// familyCPU adds up the CPU times of a process and of its descendants, by name.
func familyCPU(stats []processStat, root int) map[string]time.Duration {
	parents := map[int]int{}
	for _, stat := range stats {
		parents[stat.pid] = stat.parent
	}
	byName := map[string]time.Duration{}
	for _, stat := range stats {
		pid := stat.pid
		for pid != root && pid != 0 {
			pid = parents[pid]
		}
		switch {
		case pid != root:
		case stat.pid == root:
			byName[ownName] += stat.cpu
		default:
			byName[stat.name] += stat.cpu
		}
	}
	return byName
}

// growth returns what each program has used since.
func growth(before, after map[string]time.Duration) map[string]time.Duration {
	used := map[string]time.Duration{}
	for name, cpu := range after {
		used[name] = cpu - before[name]
	}
	return used
}
