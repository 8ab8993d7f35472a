// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/client-go/tools/cache"
)

// SaltLabel is the label on a release record with the random key of its digests (see [Digest]), and
// of the hash of its manifest. Only clients that may read the record know the key, so nobody else
// can use the digest to guess the content of the manifest.
const SaltLabel = "engine.demo.example.com/salt"

// manifestDigest is the prefix of the digest of [ManifestDigest].
const manifestDigest = "manifest:"

// Digest identifies the manifest and hooks that the engine recorded for a revision. Every
// client that may edit Secrets can change a release record. So the engine applies the content of a
// record, runs its hooks or rolls back to it only if this digest matches.
type Digest struct {
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

// AddSalt adds a salt to the labels of a revision that has none. The revisions of a release
// share a salt, so that equal manifests have equal hashes.
func AddSalt(labels map[string]string) {
	if len(labels[SaltLabel]) == hex.EncodedLen(saltBytes) {
		return
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // crypto/rand never returns an error.
	labels[SaltLabel] = hex.EncodeToString(salt)
}

// DigestOf returns the digest of a revision's manifest and hooks. It omits fields that Helm changes
// after it has created the record: the last run of a hook, and the default of its deletion policy.
func DigestOf(salt string, rls *releasev1.Release) (string, error) {
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

// Matches reports whether a record has the content that the digest identifies.
func Matches(digest string, rls *releasev1.Release) bool {
	if hash, ok := strings.CutPrefix(digest, manifestDigest); ok {
		sum := sha256.Sum256([]byte(rls.Manifest))
		return len(rls.Hooks) == 0 && hash == hex.EncodeToString(sum[:])
	}
	is, err := DigestOf(rls.Labels[SaltLabel], rls)
	return err == nil && digest != "" && hmac.Equal([]byte(is), []byte(digest))
}

// Digests has the digests of the revisions that this process has recorded, and the revisions
// whose records were changed.
type Digests struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]map[int]string
}

// Note records the digest of a revision. An empty digest means that the record was changed,
// whatever digest the caller has.
func (d *Digests) Note(release cache.ObjectName, revision int, digest string) {
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

// Of returns the digests of the records in the history. Digests of this process take precedence
// over digests of the caller, which may lack the last revisions. It drops revisions without a
// record.
func (d *Digests) Of(release cache.ObjectName, kept []Digest, history []*Record) []Digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.releases[release]
	known := make([]Digest, 0, len(history))
	exists := make(map[int]bool, len(history))
	for _, record := range history {
		exists[record.Revision] = true
		digest, ok := own[record.Revision]
		if !ok {
			digest = DigestFor(kept, record.Revision)
		}
		if digest != "" {
			known = append(known, Digest{Revision: record.Revision, Digest: digest})
		}
	}
	for revision := range own {
		if !exists[revision] {
			delete(own, revision)
		}
	}
	return known
}

// Forget drops the digests of the release.
func (d *Digests) Forget(release cache.ObjectName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.releases, release)
}

// DigestFor returns the digest of a revision; empty without a digest.
func DigestFor(digests []Digest, revision int) string {
	for _, entry := range digests {
		if entry.Revision == revision {
			return entry.Digest
		}
	}
	return ""
}
