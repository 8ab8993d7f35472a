// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/secretkeys"
)

// References returns the references of a Backup to Secrets.
func References(b *backupv1.Backup) []secretkeys.Reference {
	return append([]secretkeys.Reference{{
		Field: "spec.source.connection.credentialsSecret", Secret: b.Spec.Source.Connection.CredentialsSecret,
		Keys: []string{backupv1.KeyUsername, backupv1.KeyPassword},
	}}, BucketReferences(b)...)
}

// BucketReferences returns the reference to the credentials of the bucket; none if the pods get them
// from the cloud.
func BucketReferences(b *backupv1.Backup) []secretkeys.Reference {
	if b.Spec.Destination.CredentialsSecret == "" {
		return nil
	}
	return []secretkeys.Reference{{
		Field: "spec.destination.credentialsSecret", Secret: b.Spec.Destination.CredentialsSecret, Keys: Keys(b.Spec.Destination),
	}}
}

// Credentials says where runs get the credentials of the bucket. missing is the missing part of the
// bucket's Secret, and last the condition LastRunSucceeded: only runs show whether credentials
// exist that the cloud gives to pods.
func Credentials(b *backupv1.Backup, missing *secretkeys.Missing, last metav1.Condition) metav1.Condition {
	secret := b.Spec.Destination.CredentialsSecret
	switch {
	case missing != nil:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonOf(missing), Message: missing.Message}
	case secret != "":
		return metav1.Condition{
			Status: metav1.ConditionTrue, Reason: backupv1.ReasonSecret, Message: fmt.Sprintf("Runs have the credentials of Secret %q", secret),
		}
	case b.Spec.Destination.Type == backupv1.DestinationAzure && b.Spec.Destination.Endpoint == "":
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: backupv1.ReasonStorageAccountMissing, Message: "spec.destination.endpoint: is missing, so nothing " +
				"names the storage account: set it to https://ACCOUNT.blob.core.windows.net, or set spec.destination.credentialsSecret",
		}
	}
	found := metav1.Condition{Status: metav1.ConditionUnknown, Reason: backupv1.ReasonServiceAccount, Message: fmt.Sprintf(
		"spec.destination.credentialsSecret is not set: runs have the credentials that the cloud gives to ServiceAccount %q", Account(b))}
	switch {
	case last.Status == metav1.ConditionTrue:
		found.Status = metav1.ConditionTrue
	case last.Reason == backupv1.ReasonDestinationRefused:
		found.Status = metav1.ConditionFalse
	}
	return found
}

// ReasonOf returns the reason of a Secret or key that is missing.
func ReasonOf(missing *secretkeys.Missing) string {
	if missing.NoSecret {
		return backupv1.ReasonSecretNotFound
	}
	return backupv1.ReasonKeyNotFound
}
