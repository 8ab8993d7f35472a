// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// cacheVariable names the environment variable that moves the cache folder.
const cacheVariable = "LOCALCLUSTER_CACHE"

// versionVariable names the environment variable with the minor version of Kubernetes.
const versionVariable = "LOCALCLUSTER_KUBERNETES"

// ephemeralPrefix begins the names of instances without a name of the user's. The next supervisor
// removes their remains.
const ephemeralPrefix = "tmp-"

// namePattern keeps names valid as file names and inside node names and context names.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// layout has the paths of all files.
type layout struct {
	cache string
}

// newLayout returns the layout under cache, or under the user's cache folder when cache is empty.
func newLayout(cache string) (layout, error) {
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return layout{}, fmt.Errorf("no cache folder; set %s or --cache: %w", cacheVariable, err)
		}
		cache = filepath.Join(user, "demoapp-controller", "localcluster")
	}
	absolute, err := filepath.Abs(cache)
	if err != nil {
		return layout{}, fmt.Errorf("cache folder: %w", err)
	}
	return layout{cache: absolute}, nil
}

// binaries returns the folder with one folder of binaries for each build key.
func (l layout) binaries() string { return filepath.Join(l.cache, "bin") }

// images returns the folder with the archives of the images of real nodes.
func (l layout) images() string { return filepath.Join(l.cache, "images") }

// clusters returns the folder with one folder for each instance.
func (l layout) clusters() string { return filepath.Join(l.cache, "clusters") }

// instance returns the paths of the instance called name.
func (l layout) instance(name string) (instance, error) {
	if !namePattern.MatchString(name) {
		return instance{}, fmt.Errorf("name %q: want at most 40 lower case letters, digits and inner dashes", name)
	}
	return instance{name: name, dir: filepath.Join(l.clusters(), name)}, nil
}

// instance is the name of one control plane and the paths that belong to it.
type instance struct {
	name string
	dir  string
}

func (i instance) lockFile() string            { return i.dir + ".lock" }
func (i instance) commandLock() string         { return i.dir + ".up.lock" }
func (i instance) supervisorLog() string       { return i.dir + ".log" }
func (i instance) stateFile() string           { return filepath.Join(i.dir, "state.json") }
func (i instance) kubeconfig() string          { return filepath.Join(i.dir, "kubeconfig") }
func (i instance) auditLog() string            { return filepath.Join(i.dir, "audit.log") }
func (i instance) logs() string                { return filepath.Join(i.dir, "logs") }
func (i instance) data() string                { return filepath.Join(i.dir, "etcd") }
func (i instance) config(file string) string   { return filepath.Join(i.dir, "config", file) }
func (i instance) pki(file string) string      { return filepath.Join(i.dir, "pki", file) }
func (i instance) log(component string) string { return filepath.Join(i.logs(), component+".log") }

// removeFiles removes all files of the instance but its lock and the supervisor's log. The
// supervisor writes the log while it removes the remains of a predecessor.
func (i instance) removeFiles() error {
	if err := os.RemoveAll(i.dir); err != nil {
		return fmt.Errorf("remove instance %q: %w", i.name, err)
	}
	return nil
}

// forget removes all files of the instance but its lock.
func (i instance) forget() error {
	err := os.Remove(i.supervisorLog())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, i.removeFiles()); err != nil {
		return fmt.Errorf("forget instance %q: %w", i.name, err)
	}
	return nil
}

// keepOnlyLogs removes the data and the secrets of an instance that failed.
func (i instance) keepOnlyLogs() error {
	for _, path := range []string{i.data(), i.pki(""), i.config(""), i.kubeconfig(), i.node("")} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clean up instance %q: %w", i.name, err)
		}
	}
	return nil
}
