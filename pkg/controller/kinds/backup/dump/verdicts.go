// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"cmp"
	"fmt"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/runs"
)

// FinalCodes returns the exit codes of failures that a retry does not cure. scripts/lib.sh lists
// all exit codes.
func FinalCodes() []int32 { return []int32{10, 20, 21, 24, 25, 30} }

// Verdicts explain failed runs of a Backup.
func Verdicts(b *backupv1.Backup) runs.Verdicts {
	const credentials = "spec.destination.credentialsSecret"
	source := b.Spec.Source.Connection.CredentialsSecret
	refused := fmt.Sprintf("correct the keys in Secret %q, or let them list, read, write and delete in the bucket", b.Spec.Destination.CredentialsSecret)
	pruning := fmt.Sprintf("let the keys in Secret %q list and delete in the bucket", b.Spec.Destination.CredentialsSecret)
	if b.Spec.Destination.CredentialsSecret == "" {
		account := Account(b)
		refused = fmt.Sprintf("set it to a Secret with the keys of the bucket, or let the cloud give the ServiceAccount %q of the pods credentials that may "+
			"list, read, write and delete in the bucket, or set spec.serviceAccountName", account)
		pruning = fmt.Sprintf("let the credentials of the ServiceAccount %q list and delete in the bucket", account)
	}
	return runs.Verdicts{
		Containers: map[string]map[int32]runs.Verdict{
			dump: {
				0: verdict(backupv1.ReasonDumpFailed, "spec.source", "look at the log: kubectl logs job/{job} --container dump"),
				10: verdict(backupv1.ReasonSourceRefused, "spec.source.connection",
					fmt.Sprintf("correct host or database, or username or password in Secret %q", source)),
			},
			upload: {
				0:  verdict(backupv1.ReasonUploadFailed, "spec.destination", "look at the log: kubectl logs job/{job} --container upload"),
				20: verdict(backupv1.ReasonDestinationRefused, credentials, refused),
				21: verdict(backupv1.ReasonBucketNotFound, "spec.destination.bucket", "create the bucket, or correct bucket or endpoint"),
				24: verdict(backupv1.ReasonPruneFailed, credentials, pruning),
				25: verdict(backupv1.ReasonDestinationInUse, "spec.destination.prefix",
					"choose another prefix, or set spec.destination.takeOverFrom to the UID of the other Backup if it is no longer in use"),
			},
		},
		Deadline: verdict(backupv1.ReasonDeadlineExceeded, "", "look at the events: kubectl describe job {job}"),
		Missed: verdict(backupv1.ReasonRunMissed, "spec.schedule",
			"look whether an earlier run still runs: kubectl get jobs --selector "+backupv1.LabelBackup+"="+b.Name),
		Other: verdict(backupv1.ReasonRunFailed, "", "look at the events: kubectl describe job {job}"),
	}
}

// Account returns the name of the ServiceAccount of the pods of a Backup.
func Account(b *backupv1.Backup) string { return cmp.Or(b.Spec.ServiceAccountName, "default") }

func verdict(reason, field, advice string) runs.Verdict {
	return runs.Verdict{Reason: reason, Field: field, Advice: advice}
}
