// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/distribution/reference"

	"github.com/example/demoapp-controller/pkg/registries"
)

// The images that the operator names, by their program.
const (
	// NGINX is the default of spec.image of DemoApps and Websites, and Redis the default of
	// spec.cache.image of AppStacks.
	NGINX     = "nginx:1.27-alpine"
	Redis     = "redis:7-alpine"
	Memcached = "memcached:1.6.32-alpine"
	// Rclone uploads the dumps of Backups. The images of the databases make the dumps.
	Rclone         = "rclone/rclone:1.69"
	PostgreSQLDump = "postgres:18-alpine"
	MySQLDump      = "mysql:8.4"
	MongoDBDump    = "mongo:8.0"
)

// firstPostgreSQL and lastPostgreSQL are the first and the last major version of a PostgreSQL.
const firstPostgreSQL, lastPostgreSQL = 12, 18

// mySQL is the beginning of the images of MySQL servers. Users name their tags.
const mySQL = "mysql:"

// PostgreSQL returns the image of a PostgreSQL server of a major version.
func PostgreSQL(version string) string { return "postgres:" + version }

// MySQL returns the image of a MySQL server of a version.
func MySQL(version string) string { return mySQL + version }

// Known returns the images that the operator names, except images of MySQL servers.
func Known() []string {
	known := []string{NGINX, Redis, Memcached, Rclone, PostgreSQLDump, MySQLDump, MongoDBDump}
	for version := firstPostgreSQL; version <= lastPostgreSQL; version++ {
		known = append(known, PostgreSQL(strconv.Itoa(version)))
	}
	return known
}

func isKnown(image string) bool {
	return strings.HasPrefix(image, mySQL) || slices.Contains(Known(), image)
}

// Table says where the images that the operator names are pulled from. The zero value leaves them
// as they are.
type Table struct {
	registry string
	replaced map[string]string
}

// Parse returns a table. registry is a mirror of Docker Hub, as a host with or without a path;
// empty for none. replaced maps images to their replacements, which win over the mirror. The error
// quotes the first invalid entry and names the valid form.
func Parse(registry string, replaced map[string]string) (Table, error) {
	if registry != "" {
		if _, err := registries.Parse([]string{registry}); err != nil {
			return Table{}, err
		}
	}
	for _, image := range slices.Sorted(maps.Keys(replaced)) {
		if !isKnown(image) {
			return Table{}, fmt.Errorf("%q is none of the operator's images: %s, %s<version>", image, strings.Join(Known(), ", "), mySQL)
		}
		if err := check(replaced[image]); err != nil {
			return Table{}, fmt.Errorf("%q, in place of %s: %w", replaced[image], image, err)
		}
	}
	return Table{registry: registry, replaced: maps.Clone(replaced)}, nil
}

// check returns an error unless an image is a reference with a tag or a digest.
func check(image string) error {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return fmt.Errorf("is not an image: %w", err)
	}
	if reference.IsNameOnly(named) {
		return errors.New("names neither a tag nor a digest, for example registry.example.com/redis:7")
	}
	return nil
}

// Replaced returns the images of [Known] that are pulled from elsewhere, and from where.
func (t Table) Replaced() map[string]string {
	replaced := map[string]string{}
	for _, image := range Known() {
		if other := t.Of(image); other != image {
			replaced[image] = other
		}
	}
	return replaced
}

// Of returns where an image is pulled from: its replacement, or the same repository in the mirror,
// such as registry.example.com/library/redis:7-alpine. An image that the operator does not name is
// returned as it is.
func (t Table) Of(image string) string {
	if other, replaced := t.replaced[image]; replaced {
		return other
	}
	if t.registry == "" || !isKnown(image) {
		return image
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image // The tag of a MySQL server comes from a field, which the kubelet refuses.
	}
	_, tag, _ := strings.Cut(image, ":")
	return t.registry + "/" + reference.Path(named) + ":" + tag
}
