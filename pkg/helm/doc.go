// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm keeps Helm releases as they are desired, from inside a controller.
//
// It drives the Helm v4 SDK in process and imports nothing else of this module:
// any operator can use it. A controller asks three questions, whenever
// something may have changed, and keeps one small answer:
//
//	observed, err := engine.Observe(ctx, desired.Key(), baseline) // What is there?
//	decision, err := engine.Decide(desired, observed)             // What is due, and why?
//	deployed, err := engine.Execute(ctx, desired, decision, baseline)
//	baseline = deployed.Baseline() // Unless deployed is nil: nothing was due.
//
// The baseline belongs into the status of the custom resource. It is what drift
// is measured against, and what release records are held against, also after a
// restart. [Engine.Subscribe] tells when to
// ask again, [Engine.Uninstall] ends the release.
//
// # What stays ordinary Helm
//
// Everything that others see. The release records are as Helm's own Secrets
// driver writes them, but for the order of the fields, so that helm list, history,
// get, rollback and uninstall work on them; labels of the engine's own ([InputsLabel], [RollbackLabel]) say what it
// made a revision from. Helm's actions decide what happens in which order: hooks with their
// weights and deletion policies, crds/ before templates, keep policies, the
// history's length. The objects carry Helm's label and annotations, and are
// applied on the server's side under Helm's own field manager ([FieldManager]).
//
// The engine replaces what is underneath: it is the kube.Interface and the
// storage driver of those actions. There it knows what they would ask for. It
// finds out whether an object is in the way by creating it, and looks first only
// where hooks would run before; it leaves out objects that an upgrade does not change; it sends no
// request to find records or to validate. An install of N objects without hooks
// costs N+2 requests, an upgrade that changes C of them C+3, a repair of D
// drifted objects D, an uninstall N+2, however long the history is.
//
// # Deciding
//
// Whether a release is up to date is told by a digest of its inputs: chart,
// values and owner ([Release.InputDigest]). The digest of the newest revision is
// in its record's label. A chart is never rendered to find out, because it may
// render differently each time: functions such as randAlphaNum, now and lookup
// see to that. [Decide] is a pure function of the digest and of what was
// observed; its documentation and [Cause] list all cases.
//
// An attempt that failed, or that a crash interrupted, is redone in its place: a
// release that keeps failing does not pile up revisions. What such an attempt
// made, and no later one has, is removed before its record goes. An operation of
// somebody else is waited for, until it counts as abandoned. A revision that
// somebody else made is upgraded away.
//
// # Rolling back
//
// When to give up is for the caller to say; [ActionRollback] then makes a new
// revision with the manifest of an older one, and [Snapshot] names the last good
// one. A rollback costs C+3 requests for C objects that differ, when the engine
// saw the last success itself: what no attempt has sent since is as it was.
//
// The record of a rollback keeps two digests: of the inputs that are deployed
// again, and of those that were given up. While either is desired, the release
// stays as it is, drift is mended, and [Decision] says in RolledBack that the
// desired inputs are not deployed. Any other inputs are upgraded to. A rollback
// that fails or is cut off is redone in its place, unless other inputs are desired
// by then.
//
// Helm calls superseded whatever was followed by something else; the engine marks
// its attempts that failed, so that none of them is ever rolled back to.
//
// # Trust
//
// Whoever may edit Secrets in a namespace may edit the release records there, and
// Helm believes what a record says. The engine does not. It keeps a digest of the
// manifest and hooks of each revision that it records ([RevisionDigest]), and the
// caller keeps the digests in the baseline. The content of a record is applied, its
// hooks run and its revision is rolled back to only if the digest matches. A revision
// whose record does not match is made again from the chart, in its place
// ([CauseUnverified]): after a forgery, and after a crash between the record and the
// caller's note of it. An uninstall then runs no hooks and goes by the baseline, and
// by the marks of the objects that the record names. Records are decoded within
// bounds of size and number of values.
//
// A release belongs to its owner: records name it ([OwnerLabel]). A release of another
// owner, or one that others made, is refused ([ActionRefuse]), unless [Release.Adopt]
// says to take it over.
//
// An object belongs to the release by the UID in the baseline. In a release that had
// records before an operation, Helm's marks and the controller reference count as
// well. They count nothing before the first record, because everybody can write them
// who may write the object. A hook that exists is replaced only if it is marked as a
// hook and belongs to no other release or controller.
//
// A release touches objects of its own namespace only, unless [Release.Scope] allows
// more. This is checked when a manifest or hook is parsed. It is enforced again in the
// transport of the engine's client, which also stops requests outside of
// [Config.Namespaces] and writes outside of an operation.
//
// # Drift
//
// In an object's managedFields, the API server keeps one entry for what Helm
// applied. A field leaves that entry as soon as somebody else gives it another
// value or removes it, and nothing happens to it when others add fields of their
// own. A hash of the entry, taken right after the engine's own apply, is the
// object's fingerprint; the inventory holds it together with the UID. Drift is a
// fingerprint or UID that differs, or an object that is gone. [ActionRepair]
// applies the drifted objects of the stored manifest again, and no others; it
// makes no revision and renders nothing. The manifest has to be read for it, which
// is one more request, when the release's record is not in the cache: after a
// restart, mostly.
//
// A fingerprint tells who owns the fields, and not what is in them: when somebody
// puts a value back, it stays different, and it does not change again when somebody
// then changes the value once more. Hence every change by others to an object that
// has drifted is told of, and [Snapshot] names the state that it is in. What is
// different, and whether fields to be ignored ([Release.Ignore]) are all there is to
// it, takes a closer look: [Engine.Explain].
//
// Two things cannot be seen like this. Another writer that uses the same field
// manager and server-side apply is Helm, as far as the API server can tell; a
// new revision in the records gives it away. And stringData in a Secret is owned
// by that name while the change happens in data, which is why the engine applies
// it as data.
//
// # Watching, and the view
//
// Each kind in use is watched once, from the first release that needs it to the
// last, selected by Helm's label. The transform keeps names, marks, the
// fingerprint and the health, and drops the rest before it is stored; kinds
// without a status are watched by their metadata alone, and Kubernetes' own kinds
// as protobuf. Release records, too, are known by their metadata; their content is
// in a cache of bounded size, without the chart, which all records made from it
// share, or is read when it is needed.
//
// A watch is behind what the engine itself has just written. Between the two
// stands a view: the informer's store, and over it the answers to own writes,
// until the store has reached their resourceVersion. Hence a decision can follow
// an operation at once. The echo of an own write is no news; because it may
// overtake its answer, what a watch tells of a release is held back while an
// operation on it is in flight.
//
// So nothing has to be asked of the API server to know that all is well. A
// release in its desired state costs no request: not while nothing happens, not
// at a periodic resync, and not after a restart, for which lists and watches are
// enough.
//
// # Operations
//
// Operations on one release exclude each other; different releases do not wait
// for one another. A second engine, in another process, is kept off by the
// records: the revision that both want to make can be created only once, and a
// failed one replaced only by who knows its last version.
//
// An operation does not end with the context that it was called with. It has a
// deadline of its own ([Release.Timeout]), so that a shutdown lets it finish, and
// the outcome is recorded even when the deadline has passed. If the process
// dies anyway, the next one finds the record pending and redoes the attempt:
// whatever request of whatever operation fails or is the last, trying again
// comes to the same end.
//
// A chart is refused when it is loaded for the reasons for which the helm command
// refuses it: it is a library chart, or lacks a dependency in charts/. Symbolic links
// in it are followed. CRDs under crds/ of a version that the API server does not serve
// are refused by the install.
//
// The engine never waits for the health of what it deployed. [Snapshot] has it,
// by the rules of kstatus, and a change of it is told to subscribers.
//
// Errors are typed. [IsTerminal] tells those that come again until something
// changes ([RenderError], [RefusedError], [OwnershipConflictError],
// [ReleaseTooLargeError], [NoSuchRevisionError], [ErrInvalidChart]) from those
// that may pass. An object that belongs to somebody else is not touched, and what
// the refused attempt had created by then is taken back. An apply over an object
// that the release has carries its UID: another one that has taken the name in
// the meantime is looked at first.
//
// # Owners
//
// With [Release.Owner] set, every object of the release is owned by it, so that
// the garbage collector removes what an uninstall could not, and everybody sees
// whose an object is. The reference is part of the stored manifest, and everything
// else in the manifest stays as the chart wrote it, to keys such as n, which YAML 1.1
// reads as a boolean. Left out are
// objects that outlive the release or that cannot have such an owner: those to
// be kept, of no namespace, or of another one, and hooks.
//
// # Limits
//
//   - The records of a release fit into a Secret each: 1 MiB for chart, values and
//     manifest, compressed; 4 MiB, and twice what the chart takes, decompressed; and
//     200,000 values.
//   - As with Helm, the files under crds/ are created and never changed, and stay
//     after an uninstall. They are waited for; CRDs in templates are not.
//   - A manifest has at most 10 MiB, 10,000 objects and 1,000,000 YAML nodes, and a
//     document at most 200,000 nodes, aliases replaced, which may add 1 MiB of text.
//     What exceeds a limit is a [RenderError], and is not parsed.
//   - Hooks are not watched for drift, and neither are objects in namespaces
//     that [Config.Namespaces] leaves out.
//   - Owner references of a stored manifest are renewed only by the engine's own
//     rollback, and only with [Release.Owner] set.
//   - The capabilities that a chart sees are no part of the input digest: a newer
//     API server alone is no reason for an upgrade.
//   - The template function lookup asks the API server whenever the chart is
//     rendered, which is once for each change, under the engine's permissions. What
//     it finds is no part of the input digest, and not watched. A lookup that the
//     API server refuses fails the operation, and is tried again.
//   - Objects of a kind that the API server no longer serves are taken for gone when
//     the release is upgraded or uninstalled. In a release that still wants them they
//     are drift, which is repaired when the kind is served again.
//   - The engine reads "create only" as Kubernetes 1.36 does: an apply with a
//     resourceVersion that the object never had conflicts, even when forced.
//   - The engine keeps about 1.3 KB in memory for every object of a release, as
//     much for every record, and up to 32 MiB of content of records, besides their
//     charts, which records of the same chart share.
package helm
