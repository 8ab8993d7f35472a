// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

// inputVersion is the version in the status of the inputs with a digest.
//
// The digest of the inputs must not be in the status. It is derived from Secrets, and a
// short secret can be guessed from its digest. The version is derived from UIDs and
// resource versions instead. If an object is written again with the same content, its
// version stays the same while the process runs.
type inputVersion struct{ digest, version string }

// inputVersion returns the version of the inputs: the known one if the digest is the
// same, and the one of the binding otherwise.
func (l *Lifecycle) inputVersion(f Facts) string {
	if last, ok := l.inputVersions.get(f.Key); ok && last.digest == f.Digest {
		return last.version
	}
	l.inputVersions.set(f.Key, inputVersion{digest: f.Digest, version: f.Desired.InputVersion})
	return f.Desired.InputVersion
}
