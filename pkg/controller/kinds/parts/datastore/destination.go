// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	backupv1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/backup/v1"
)

// Destination returns the destination of a Backup that a database owns.
func Destination(given backupv1.Destination) *backupv1ac.DestinationApplyConfiguration {
	desired := backupv1ac.Destination().WithType(given.Type).WithBucket(given.Bucket).WithCredentialsSecret(given.CredentialsSecret)
	for _, field := range []struct {
		with  func(string) *backupv1ac.DestinationApplyConfiguration
		value string
	}{
		{desired.WithPrefix, given.Prefix},
		{desired.WithEndpoint, given.Endpoint},
		{desired.WithRegion, given.Region},
		{desired.WithCABundle, given.CABundle},
		{desired.WithServerSideEncryption, given.ServerSideEncryption},
		{desired.WithKMSKeyID, given.KMSKeyID},
		{desired.WithTakeOverFrom, given.TakeOverFrom},
	} {
		if field.value != "" {
			field.with(field.value)
		}
	}
	return desired
}

// Run returns what a Backup that a database owns has about its Jobs, or nil for the defaults.
func Run(given *backupv1.Run) *backupv1ac.RunApplyConfiguration {
	if given == nil {
		return nil
	}
	desired := backupv1ac.Run().WithPodLabels(given.PodLabels).WithPodAnnotations(given.PodAnnotations)
	desired.Timeout = given.Timeout
	return desired
}

// Volume returns the volume of a Backup that a database owns, or nil for the default.
func Volume(given *backupv1.Volume) *backupv1ac.VolumeApplyConfiguration {
	if given == nil {
		return nil
	}
	desired := backupv1ac.Volume().WithSize(given.Size)
	if given.StorageClassName != "" {
		desired.WithStorageClassName(given.StorageClassName)
	}
	return desired
}
