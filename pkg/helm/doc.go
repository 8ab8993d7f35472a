// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm keeps Helm releases in their desired state, for a controller.
//
// It drives the Helm v4 SDK in process. Outside of pkg/helm, it imports only leaves of this module,
// such as pkg/ssa, so any operator can use it. After each possible change, a controller calls three
// methods and stores the result:
//
//	observed, err := engine.Observe(ctx, desired.Key(), baseline)
//	decision, err := engine.Decide(desired, observed)
//	deployed, err := engine.Execute(ctx, desired, decision, baseline)
//	baseline = deployed.Baseline() // Unless deployed is nil: there was nothing to do.
//
// Store the baseline in the status of the custom resource, so that it survives a restart. Drift is
// measured against the baseline, and release records are verified against it. [Engine.Subscribe]
// reports when a release should be observed again. [Engine.Uninstall] removes the release.
//
// This package decides and runs operations. Each package below it is a subject that can be read
// alone: package chart loads charts, functions limits their template functions, and manifest reads
// the rendered objects. Package record stores revisions. Package live observes the objects in the
// cluster, and fields compares their fields. Package guard refuses requests beyond a release.
//
// # Compatibility with Helm
//
// Release records have the format of Helm's own Secrets driver, except for the order of
// the fields. So helm list, history, get, rollback and uninstall work on them. The engine adds its
// own labels, which identify the inputs of a revision ([record.InputsLabel],
// [record.RollbackLabel]). Helm's actions decide the steps and their order: hooks with their
// weights and deletion policies, crds/ before templates, keep policies, the length of the history.
// The objects have Helm's label and annotations. They are applied by server-side apply under Helm's
// own field manager ([FieldManager]).
//
// The engine replaces the layer below Helm's actions: it implements their kube.Interface and
// storage driver with fewer requests.
//
//   - It creates an object without a read. It reads the object first only if hooks would run before
//     the apply.
//   - It does not send objects that an upgrade does not change.
//   - It sends no request to find records or to validate objects.
//
// An install of N objects without hooks costs N+2 requests. An upgrade that changes C
// objects costs C+3, a repair of D drifted objects D, and an uninstall N+1, whatever the
// length of the history, and one more for each custom resource and each object that a hook may have
// left.
//
// # Deciding
//
// A release is up to date when the digest of its inputs (chart, values and owner, see
// [Release.InputDigest]) equals the digest in the label of the newest record. A chart is never
// rendered to decide, because functions such as randAlphaNum, now and lookup make it render
// differently each time. [Decide] is a pure function of the digest and the observed state. Its
// documentation and [Cause] list all cases.
//
// An attempt that failed or was interrupted is repeated under the same revision, so a failing
// release does not accumulate revisions. Objects that only such an attempt created are removed
// before its record is overwritten. The engine waits for the operation of another client until the
// operation counts as abandoned. A revision that another client made is replaced by an upgrade.
//
// # Rolling back
//
// The caller decides when to roll back, with a [Decision] for [ActionRollback].
// [Snapshot] names the last good revision. A rollback makes a new revision with the
// manifest of the older one. It costs C+3 requests for C objects that differ, if this
// process saw the last success: objects that were not sent since are unchanged.
//
// The record of a rollback has two digests: of the inputs that are deployed again, and
// of the inputs that were given up. While either of them is desired, the release keeps
// the older state, drift is corrected, and [Decision.RolledBack] says that the desired
// inputs are not deployed. Other inputs lead to an upgrade. A rollback that failed or was
// interrupted is repeated, unless other inputs are desired by then.
//
// Helm gives every older revision the status superseded. The engine marks its failed
// attempts, so that none of them becomes the target of a rollback.
//
// # Trust
//
// Everyone who may edit Secrets in a namespace may edit the release records there, and
// Helm trusts their content. The engine does not. For each revision that it records, it
// keeps a digest of manifest and hooks ([record.Digest]), and the caller keeps the
// digests in the baseline. Only if the digest matches does the engine apply the content
// of a record, run its hooks, or roll back to it. A revision whose record does not match
// is made again from the chart under the same revision ([CauseUnverified]). The record
// may be forged, or the process ended between the record and the caller's baseline. An
// uninstall then runs no hooks. It removes the objects of the baseline, and objects in the
// record that have the release's marks. The size and the number of values of a record are
// bounded before the record is decoded.
//
// A release belongs to its owner, whom the records name ([record.OwnerLabel]). The engine refuses a
// release of another owner ([ActionRefuse]). It also refuses a release of another client, unless
// [Release.Adopt] or [Release.Takeover] is set. A takeover is for the releases of another operator
// with the same owners. It trusts less than an adoption: the record must name the owner, or the
// owner must control the objects. Outside the release's namespace, an object must name the owner,
// too. The tenants of the namespace cannot write there, so the engine names the owner on the
// objects that it applies there.
//
// The baseline has the UID of each object, and an object with this UID belongs to the release.
// Until a baseline has them, the engine remembers the UIDs of the objects that it created for the
// owner, as long as the process runs. Helm's marks count in the release's namespace, as with Helm: who
// may write them may write the object. So the same release, installed again, takes the objects that
// an uninstall kept. Outside of the namespace, marks count if the release had records before the
// operation, or if the object names the owner, as objects do that an uninstall kept. The controller
// reference counts only if the release had records. A hook replaces an object of the release, and
// an object that is marked as a hook and belongs to no other release or controller. It replaces no
// other object.
//
// A release has objects in its own namespace only, unless [Release.Scope] allows more.
// The engine checks this when it parses a manifest or hook. Its transport checks it
// again. The transport also stops requests outside [Config.Namespaces], and writes outside
// an operation. With [Release.ServiceAccount], the transport sends every request of an
// operation as that account, so charts have only the account's permissions. Discovery and
// watches are shared by all releases, and keep the engine's own account.
//
// # Drift
//
// In an object's managedFields, the API server keeps one entry for Helm's applies. A field leaves
// the entry when another client changes or removes the field. The entry does not change when other
// clients add fields. Any client may apply under Helm's field manager. The API server then moves
// the time of the entry if the object changes. A hash of the fields of the entry and its time,
// taken right after the engine's own apply, are the object's fingerprint. The inventory has the
// fingerprint and the UID. Drift means that either differs, or that the object is gone.
// [ActionRepair] applies only the drifted objects of the stored manifest again. It makes no
// revision and renders nothing. It reads the manifest with one more request if the record is not
// cached, which is mostly the case after a restart.
//
// A failed upgrade does not end the watch for drift. The deployed revision stays the baseline
// ([Snapshot.StillDeployed]), and a repair restores its objects. The objects that the failed
// upgrade has applied are in the inventory that Execute returns with the error. They are not drift,
// so a repair does not revert changes that the next attempt would repeat.
//
// A fingerprint covers the managers of fields, but not their values. When another client restores a
// value, the fingerprint stays different, and further changes of the value do not change it. So the
// engine reports every change of a drifted object, and [Snapshot] identifies the current state of
// the object. [Engine.Explain] determines which values differ, and whether only ignored fields
// differ ([Release.Ignore]).
//
// The time has full seconds. So the fingerprint cannot show another client's apply under the same
// field manager within the second of the engine's apply. The watch shows that the object changed,
// and that no other field manager changed it ([ssa.Trace.MayHide]). The engine then treats the
// object as drifted, and applies it again. If the process ends in between, the change stays until
// the next apply of the object.
//
// The API server would record stringData of a Secret as owned, although changes happen in data. So
// the engine applies stringData as data.
//
// # Watching
//
// Each kind in use is watched once, selected by Helm's label, from the first release that
// needs it to the last. The transform keeps names, marks, the fingerprint and the health,
// and drops the rest before an object is stored. Kinds without a status are watched by
// their metadata alone, and built-in kinds as protobuf. Release records are watched by
// their metadata, too. Their content is in a cache of bounded size, or is read when
// needed. Records share their chart.
//
// A watch lags behind the engine's writes. A view combines the informer's store with the answers to
// these writes, until the store has reached their resourceVersion. So a decision can follow an
// operation at once. The echo of the engine's write is not reported. Because the echo may arrive
// before the answer, changes of a release are held back while an operation on the release is in
// flight.
//
// A release in its desired state costs no request: neither while idle, nor at a periodic resync,
// nor after a restart, except for lists and watches.
//
// # Operations
//
// Operations on one release exclude each other. Different releases do not wait for one
// another. The records keep a second engine in another process from interfering: only one of them
// can create a revision, and only an engine that knows the last version of a failed record can
// overwrite it.
//
// The end of the caller's context does not end an operation. The operation has its own deadline
// ([Release.Timeout]), so it can finish during a shutdown. After a failed attempt, the engine
// removes leftovers and records the outcome, even after the deadline. If the process is killed, the
// next process finds the pending record and repeats the attempt. A retry reaches the same state,
// whichever request failed.
//
// A chart is refused when it is loaded if the helm command would refuse it: because it is
// a library chart, or because a dependency is missing in charts/. Symbolic links in it are
// followed. An install fails if the API server does not serve the version of a CRD under
// crds/.
//
// The engine never waits for the health of deployed objects. [Snapshot] has the health, by the
// rules of kstatus, and subscribers get its changes.
//
// An object whose change the API server refuses is not changed, unless [Release.ForceReplace] is
// set. [Engine.Remaining] returns the objects that still exist after an uninstall, which does not
// wait for them.
//
// Errors are typed. [IsTerminal] reports errors that recur until something changes: [RenderError],
// [RefusedError], [OwnershipConflictError], [OutOfScopeError], [ReleaseTooLargeError],
// [NoSuchRevisionError], [chart.ErrInvalid] and [ErrInvalidServiceAccount]. An [UnavailableError]
// says nothing about the release. A missing permission is not terminal. The API server's answer
// names it, and is kept. An object of another owner is not changed, and objects that the refused
// attempt had created are removed. An apply over an existing object of the release carries its UID,
// so an object that has taken the name in the meantime is detected.
//
// # Owners
//
// With [Release.Owner] set, the owner controls every object of the release. So the garbage
// collector removes objects that an uninstall left behind, and users can see the owner. The
// reference is part of the stored manifest. The rest of the manifest is the chart's unchanged text,
// including keys such as n, which YAML 1.1 reads as a boolean. These objects have no owner
// reference: hooks, objects with a keep policy, and objects that are cluster-scoped or in another
// namespace.
//
// # Limits
//
//   - A release record fits into a Secret: chart, values and manifest have at most 1 MiB
//     compressed; 4 MiB plus twice the chart decompressed; and 100,000 values.
//   - As with Helm, the files under crds/ are created, never changed, and stay after an
//     uninstall. The engine waits for them, but not for CRDs in templates.
//   - Labels and annotations are strings. A rendered manifest with other values is a
//     [RenderError]. In the records of earlier versions they are read as strings.
//   - A manifest has at most 10 MiB, 10,000 objects and 1,000,000 YAML nodes. A document
//     has at most 200,000 nodes with its aliases replaced, which may add 1 MiB of text. A
//     manifest beyond a limit is a [RenderError] and is not parsed.
//   - Hooks, and objects outside [Config.Namespaces], are not watched for drift.
//   - Owner references of a stored manifest are renewed only by the engine's own rollback,
//     and only with [Release.Owner] set.
//   - The capabilities that a chart sees are not part of the input digest: a newer API
//     server alone is no reason for an upgrade.
//   - The template function lookup sends requests with the permissions of the engine or of the
//     release's service account at each rendering, which happens once for each change. Its results
//     are not part of the input digest and not watched. A lookup that the API server refuses fails
//     the operation, which may be retried.
//   - When the API server serves a kind in another version than the manifest, its objects are found
//     in that version, see [Identity]. They can be removed, and upgraded to the version, but not be
//     repaired or rolled back to the manifest's.
//   - When the API server no longer serves a kind in any version, its objects count as gone in an
//     upgrade or uninstall, which names them. In a release that still desires them they are drift,
//     which is repaired when the kind is served again.
//   - The engine relies on the API server: an apply with a resourceVersion that the object
//     never had conflicts, even when forced.
//   - The engine keeps about 1.3 KB in memory for each object of a release and for each
//     record, and up to 32 MiB of the content of records and their charts.
package helm
