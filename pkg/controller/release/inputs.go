// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// inputVersion is the version in the status of the inputs of an attempt.
//
// The digest of the inputs must not be in the status. It is derived from Secrets, and a
// short secret can be guessed from its digest. The version is derived from UIDs and
// resource versions instead, or is random. If an object is written again with the same
// content, its version stays the same while the process runs.
type inputVersion struct {
	inputs, version string
	// unknown is Facts.FailureUnknown.
	unknown bool
}

// forceMark separates the version of the inputs from a requested upgrade.
const forceMark = "+"

// inputVersion returns the version of all inputs of an attempt, and of the upgrade that was
// requested last: a request starts attempts afresh that were given up. It reports whether the
// failures in the status may be of these inputs, see Facts.FailureUnknown.
func (l *Lifecycle) inputVersion(ctx context.Context, f Facts, s releasev1alpha1.ReleaseStatus) (version string, unknown bool) {
	inputs := attemptInputs(f)
	last, known := l.inputVersions.Get(f.Key)
	if !known || last.inputs != inputs {
		last = inputVersion{inputs: inputs, version: f.Desired.InputVersion}
		if last.version == "" {
			last.version, last.unknown = l.newVersion(ctx, f, s, !known)
		}
		l.inputVersions.Set(f.Key, last)
	}
	force := cmp.Or(f.ForceAt, s.LastHandledForceAt)
	if force == "" {
		return last.version, last.unknown
	}
	sum := sha256.Sum256([]byte(force))
	return last.version + forceMark + hex.EncodeToString(sum[:8]), last.unknown
}

// newVersion returns the version of inputs that the binding cannot identify. In the first pass
// of a process it is the one in the status, if the newest revision is of these inputs: then
// the recorded failures are, too. Otherwise it is a random version, and the recorded failures may
// belong to these inputs or to earlier ones: an attempt may fail without a revision.
func (l *Lifecycle) newVersion(ctx context.Context, f Facts, s releasev1alpha1.ReleaseStatus, first bool) (version string, unknown bool) {
	stored, _, _ := strings.Cut(storedFailures(s).Inputs, forceMark)
	if first && stored != "" {
		observed, err := l.engine.Observe(ctx, f.release(), helm.Baseline{})
		if record := f.Desired.Release.Recognize(observed).Record; err == nil && record != nil && record.Own && (record.Inputs == f.Digest || record.Abandoned == f.Digest) {
			return stored, false
		}
	}
	return string(uuid.NewUUID()), first && stored != ""
}

// attemptInputs identifies everything that decides whether an attempt succeeds, as far as the
// object and the operator determine it. The digest of the release leaves out its options.
func attemptInputs(f Facts) string {
	r := f.Desired.Release
	return fmt.Sprint(f.Digest, r.Adopt, r.ForceReplace, r.Install.DisableHooks, r.Upgrade.DisableHooks, r.Scope, r.ServiceAccount)
}

// sourcesChanged compares the sources with the sources of the last settled pass in this process, or
// else with the sources in the status. The status of an earlier version of the operator has none: a
// change then takes a turn in the rollout.
func (l *Lifecycle) sourcesChanged(f Facts, s releasev1alpha1.ReleaseStatus) bool {
	if settled, known := l.sources.Get(f.Key); known {
		return settled != f.Desired.Sources
	}
	return s.Sources != "" && s.Sources != sourcesDigest(f.Desired.Sources)
}

// sourcesDigest returns what the status has for the sources; "" for none.
func sourcesDigest(sources string) string {
	if sources == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(sources))
	return hex.EncodeToString(sum[:8])
}
