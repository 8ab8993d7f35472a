// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package parameters

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
)

// File is the file of the ConfigMap with the settings of the servers, see scripts/start.sh.
const File = "parameters.conf"

// needRestart are the allowed parameters that a running server does not take over. Admission allows
// further parameters, see PostgreSQLSpec.Parameters.
var needRestart = []string{
	"autovacuum_max_workers", "max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_worker_processes",
	"pg_stat_statements.max", "shared_buffers", "shared_preload_libraries",
}

// Sizes in bytes, and the bounds of max_connections.
const (
	mebibyte             = 1 << 20
	memoryPerConnection  = 10 * mebibyte
	maxMaintenanceMemory = 1 << 30
	minConnections       = 100
	maxConnections       = 500
)

// defaults returns the settings that follow from the memory limit of a server, in bytes.
// It returns no settings without a limit. PostgreSQL's own documentation recommends a quarter of
// the memory for shared_buffers.
func defaults(memory int64) map[string]string {
	if memory < 64*mebibyte {
		return nil
	}
	size := func(bytes int64) string { return fmt.Sprintf("%dMB", bytes/mebibyte) }
	return map[string]string{
		"shared_buffers":       size(memory / 4),
		"effective_cache_size": size(memory / 4 * 3),
		"maintenance_work_mem": size(min(max(memory/16, 16*mebibyte), maxMaintenanceMemory)),
		"max_connections":      fmt.Sprint(min(max(memory/memoryPerConnection, minConnections), maxConnections)),
	}
}

// Of returns the content of the [File].
func Of(p *databasev1.PostgreSQL) string {
	settings := map[string]string{}
	if p.Spec.Resources != nil {
		limit := p.Spec.Resources.Limits["memory"]
		maps.Copy(settings, defaults(limit.Value()))
	}
	for name, value := range p.Spec.Parameters {
		settings[name] = string(value)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
	return text.String()
}

// quote escapes a value in the syntax of postgresql.conf. Admission allows no such characters.
var quote = strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", " ", "\r", " ")

// RestartDigest returns a digest of the parameters of the user that need a restart. It is empty
// without such parameters, so that pods of earlier versions of the operator do not roll. Default
// parameters follow from the memory limit, which rolls the pods itself.
func RestartDigest(p *databasev1.PostgreSQL) string {
	var text strings.Builder
	for _, name := range needRestart {
		if value, ok := p.Spec.Parameters[name]; ok {
			fmt.Fprintf(&text, "%s=%s\n", name, value)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:8])
}
