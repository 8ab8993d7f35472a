// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of a Backup, in addition to Ready, Reconciling and Stalled.
const (
	// ConditionScheduled is True while the CronJob starts runs by the schedule.
	ConditionScheduled = "Scheduled"
	// ConditionCredentialsConfigured says where runs get the credentials of the bucket. It is False
	// while the Secret or its keys are missing, or where only a Secret or an endpoint can name the
	// account.
	ConditionCredentialsConfigured = "CredentialsConfigured"
	// ConditionLastRunSucceeded is True if the last run succeeded, and Unknown before the
	// first run ends.
	ConditionLastRunSucceeded = "LastRunSucceeded"
)

// Reasons of Scheduled and Ready.
const (
	// ReasonScheduled is the reason of Scheduled=True.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended means that spec.suspend starts no scheduled runs.
	ReasonSuspended = "Suspended"
	// ReasonNotScheduled means that the CronJob could not be written. Ready says why.
	ReasonNotScheduled = "NotScheduled"
	// ReasonInvalidSchedule means that spec.schedule or spec.timeZone is invalid. The
	// children stay as they are until the field is corrected.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonSecretNotFound means that a Secret that the spec names does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonKeyNotFound means that a Secret that the spec names lacks a key.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonRunNotStarting means that the pod of a run does not start, for example because its image
	// cannot be pulled. The message names the pod, the cause and what to do.
	ReasonRunNotStarting = "RunNotStarting"
)

// Reasons of CredentialsConfigured, in addition to ReasonSecretNotFound and ReasonKeyNotFound.
const (
	// ReasonSecret means that spec.destination.credentialsSecret has the credentials.
	ReasonSecret = "Secret"
	// ReasonServiceAccount means that the spec names no Secret: the credentials are those that the
	// cloud gives to the ServiceAccount of the pods. Only a run shows whether there are any.
	ReasonServiceAccount = "ServiceAccount"
	// ReasonStorageAccountMissing means that a destination of type azure names no storage account:
	// it has neither credentialsSecret nor endpoint. It is also a reason of Ready.
	ReasonStorageAccountMissing = "StorageAccountMissing"
)

// Reasons of LastRunSucceeded. Reasons of failures are also reasons of Ready.
const (
	// ReasonNoRunYet means that no run has ended.
	ReasonNoRunYet = "NoRunYet"
	// ReasonRunSucceeded means that the last run stored a dump.
	ReasonRunSucceeded = "RunSucceeded"
	// ReasonSourceRefused means that the database refuses the login, or does not exist.
	ReasonSourceRefused = "SourceRefused"
	// ReasonDumpFailed means that the database could not be dumped.
	ReasonDumpFailed = "DumpFailed"
	// ReasonDestinationRefused means that the bucket refuses access.
	ReasonDestinationRefused = "DestinationRefused"
	// ReasonBucketNotFound means that the bucket does not exist.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonUploadFailed means that the dump could not be stored.
	ReasonUploadFailed = "UploadFailed"
	// ReasonPruneFailed means that a dump was stored, but older dumps could not be deleted.
	ReasonPruneFailed = "PruneFailed"
	// ReasonDestinationInUse means that the dumps in the bucket belong to another Backup. None of
	// them was deleted.
	ReasonDestinationInUse = "DestinationInUse"
	// ReasonDeadlineExceeded means that a run did not end in time.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonRunMissed means that the CronJob did not start a run in time.
	ReasonRunMissed = "RunMissed"
	// ReasonRunFailed means that a run failed for another reason.
	ReasonRunFailed = "RunFailed"
)

// Keys of the Secret in spec.source.connection.credentialsSecret.
const (
	// KeyUsername holds the name of the database's user.
	KeyUsername = "username"
	// KeyPassword holds the password of the database's user.
	KeyPassword = "password"
)

// Keys of the Secret in spec.destination.credentialsSecret, by the type of the destination.
const (
	// KeyS3AccessKeyID holds the ID of an access key of S3.
	KeyS3AccessKeyID = "AWS_ACCESS_KEY_ID"
	// KeyS3SecretAccessKey holds the secret of that access key.
	KeyS3SecretAccessKey = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // The name of a key.
	// KeyGCSCredentials holds the JSON file of a service account of Google Cloud.
	KeyGCSCredentials = "GOOGLE_CREDENTIALS" //nolint:gosec // The name of a key.
	// KeyAzureAccount holds the name of a storage account of Azure.
	KeyAzureAccount = "AZURE_STORAGE_ACCOUNT"
	// KeyAzureKey holds a key of that storage account.
	KeyAzureKey = "AZURE_STORAGE_KEY"
)
