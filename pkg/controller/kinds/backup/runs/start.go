// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"

	"github.com/example/demoapp-controller/pkg/controller/child"
)

// maxToken is the maximum length of a token that is recorded without hashing.
const maxToken = 253

// StartRequested creates a Job of a CronJob, as "kubectl create job --from" does, if token is
// neither empty nor handled. It returns the new handled token. A long token is recorded as its
// hash.
//
// The Job's name depends on the token, so each token starts one run, even if the write of the
// status fails.
func (r *Runs) StartRequested(
	ctx context.Context, owner, cronJob metav1.Object, token, handled string, template *batchv1ac.JobTemplateSpecApplyConfiguration,
) (string, error) {
	hash := sha256.Sum256([]byte(string(owner.GetUID()) + "/" + token))
	record := token
	if len(token) > maxToken {
		record = "sha256:" + hex.EncodeToString(hash[:])
	}
	if token == "" || record == handled {
		return handled, nil
	}
	name := owner.GetName() + "-run-" + hex.EncodeToString(hash[:5])
	data, err := json.Marshal(template)
	if err != nil {
		return handled, fmt.Errorf("encode Job %q: %w", name, err)
	}
	var job batchv1.Job
	if err := json.Unmarshal(data, &job); err != nil {
		return handled, fmt.Errorf("encode Job %q: %w", name, err)
	}
	job.Name, job.Annotations = name, map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}
	job.OwnerReferences = []metav1.OwnerReference{child.Reference(cronJob, batchv1.SchemeGroupVersion.String(), "CronJob")}
	_, err = r.kube.BatchV1().Jobs(owner.GetNamespace()).Create(ctx, &job, metav1.CreateOptions{FieldManager: child.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return handled, fmt.Errorf("create Job %q: %w", name, err)
	}
	return record, nil
}
