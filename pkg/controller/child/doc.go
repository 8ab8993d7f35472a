// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child reconciles the objects that a custom resource owns.
//
// [Set] is for a fixed number of children of any kinds. [Set.Ensure] takes the desired children as
// apply configurations and applies them with server-side apply, under one field manager. The
// owner's status records each apply, so a child that matches the desired state costs no request,
// even after a restart. A child that another client changed or deleted is restored at once. If
// other clients change a child repeatedly, it is restored at growing intervals. A child that is no
// longer desired is deleted. [Report] turns the result into conditions.
//
// A newer operator desires other pod templates for all owners at once. A running workload keeps the
// template that the operator applied, until its owner changes or has its turn in the rollout of package
// rollout. StatefulSets wait for a change of the owner, and so does a template that is less strict.
//
// A kind with many children of one kind, which come and go with other objects, writes them itself.
//
// A child has a controller reference to its owner. Objects of other owners are never changed: the
// API server refuses a create if the name is taken, and all other writes carry the UID or the
// resourceVersion of the observed object.
//
// A cache lags behind the writes of this process. Package overlay combines the two until the cache
// has caught up. So a pass neither writes twice nor mistakes an old version for drift.
package child
