// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/client-go/tools/cache"
)

// SaltLabel is the label on a release record with the random key of its digests (see
// [RevisionDigest] and [Deployed]). Only clients that may read the record know the key, so
// nobody else can use the digest to guess the content of the manifest.
const SaltLabel = "engine.demo.example.com/salt"

// manifestDigest is the prefix of the digest of [ManifestDigest].
const manifestDigest = "manifest:"

// errUnverified means that the content of a record does not match the digest of its
// revision, or that neither the engine nor the caller has a digest.
var errUnverified = errors.New("its record was not written by this engine, or was changed since")

// RevisionDigest identifies the manifest and hooks that the engine recorded for a revision. Every
// client that may edit Secrets can change a release record. So the engine applies the content of a
// record, runs its hooks or rolls back to it only if this digest matches.
type RevisionDigest struct {
	Revision int
	// Digest has a format that is private to the engine. It reveals nothing without the
	// record.
	Digest string
}

// ManifestDigest returns a digest for a caller that has only the sha256, in hex, of a whole
// manifest. It matches a record with this manifest and without hooks.
func ManifestDigest(hash string) string { return manifestDigest + hash }

// saltBytes is the length of a salt.
const saltBytes = 16

func newSalt() string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // crypto/rand never returns an error.
	return hex.EncodeToString(salt)
}

// digestOf returns the digest of a revision's manifest and hooks. It omits fields that Helm changes
// after it has created the record: the last run of a hook, and the default of its deletion policy.
func digestOf(salt string, rls *releasev1.Release) (string, error) {
	hooks := make([]releasev1.Hook, 0, len(rls.Hooks))
	for _, hook := range rls.Hooks {
		if hook == nil {
			return "", fmt.Errorf("revision %d of release %s: a hook is null", rls.Version, rls.Name)
		}
		copied := *hook
		copied.LastRun = releasev1.HookExecution{}
		if len(copied.DeletePolicies) == 0 {
			copied.DeletePolicies = []releasev1.HookDeletePolicy{releasev1.HookBeforeHookCreation}
		}
		hooks = append(hooks, copied)
	}
	chart := chartv2.Metadata{}
	if rls.Chart != nil && rls.Chart.Metadata != nil {
		chart = *rls.Chart.Metadata
	}
	content, err := json.Marshal(struct {
		Namespace, Name                 string
		Revision                        int
		Chart, ChartVersion, AppVersion string
		Manifest                        string
		Hooks                           []releasev1.Hook
	}{rls.Namespace, rls.Name, rls.Version, chart.Name, chart.Version, chart.AppVersion, rls.Manifest, hooks})
	if err != nil {
		return "", fmt.Errorf("digest of revision %d of release %s: %w", rls.Version, rls.Name, err)
	}
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// matches reports whether a record has the content that the digest identifies.
func matches(digest string, rls *releasev1.Release) bool {
	if hash, ok := strings.CutPrefix(digest, manifestDigest); ok {
		sum := sha256.Sum256([]byte(rls.Manifest))
		return len(rls.Hooks) == 0 && hash == hex.EncodeToString(sum[:])
	}
	is, err := digestOf(rls.Labels[SaltLabel], rls)
	return err == nil && digest != "" && hmac.Equal([]byte(is), []byte(digest))
}

// digests has the digests of the revisions that this process has recorded, and the revisions
// whose records were changed.
type digests struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]map[int]string
}

// note records the digest of a revision. An empty digest means that the record was changed,
// whatever digest the caller has.
func (d *digests) note(release cache.ObjectName, revision int, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.releases == nil {
		d.releases = map[cache.ObjectName]map[int]string{}
	}
	if d.releases[release] == nil {
		d.releases[release] = map[int]string{}
	}
	d.releases[release][revision] = digest
}

// of returns the digests of the records in the history. Digests of this process take precedence
// over digests of the caller, which may lack the last revisions. It drops revisions without a
// record.
func (d *digests) of(release cache.ObjectName, kept []RevisionDigest, history []*Record) []RevisionDigest {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.releases[release]
	known := make([]RevisionDigest, 0, len(history))
	exists := make(map[int]bool, len(history))
	for _, record := range history {
		exists[record.Revision] = true
		digest, ok := own[record.Revision]
		if !ok {
			digest = digestFor(kept, record.Revision)
		}
		if digest != "" {
			known = append(known, RevisionDigest{Revision: record.Revision, Digest: digest})
		}
	}
	for revision := range own {
		if !exists[revision] {
			delete(own, revision)
		}
	}
	return known
}

// forget drops the digests of the release.
func (d *digests) forget(release cache.ObjectName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.releases, release)
}

// digestFor returns the digest of a revision; empty when there is none.
func digestFor(digests []RevisionDigest, revision int) string {
	for _, entry := range digests {
		if entry.Revision == revision {
			return entry.Digest
		}
	}
	return ""
}
