// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	backupv1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/backup/v1"
)

// DefaultDestination is where the dumps of databases are kept whose owners name no destination. The
// zero value stands for no destination.
type DefaultDestination struct{ destination *backupv1.Destination }

// Or returns the destination of the backups of a database in a namespace: the given one, or else the
// default. It returns nil if there is neither. The dumps of a namespace have a prefix of their own in
// the default destination, to which a policy of the bucket can restrict the namespace.
func (d DefaultDestination) Or(given *backupv1.Destination, namespace string) *backupv1.Destination {
	if given != nil || d.destination == nil {
		return given
	}
	found := *d.destination
	found.Prefix = path.Join(found.Prefix, namespace)
	return &found
}

// destinationField is a field of a destination that an operator can give as a default.
type destinationField struct {
	value   func(*backupv1.Destination) *string
	pattern *regexp.Regexp
	form    string
}

// destinationFields are the fields by name, with the rules of the CRD. The operator checks them when
// it starts, because the API server would refuse the Backups of all databases.
var destinationFields = map[string]destinationField{
	"type":   {func(d *backupv1.Destination) *string { return &d.Type }, regexp.MustCompile(`^(s3|gcs|azure)$`), "s3, gcs or azure"},
	"bucket": {func(d *backupv1.Destination) *string { return &d.Bucket }, regexp.MustCompile(`^[a-zA-Z0-9][-a-zA-Z0-9._]{1,220}[a-zA-Z0-9]$`), "the name of a bucket"},
	"prefix": {
		func(d *backupv1.Destination) *string { return &d.Prefix }, regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9._/]*[-a-zA-Z0-9._])?$`),
		"a path such as team/orders",
	},
	"endpoint": {
		func(d *backupv1.Destination) *string { return &d.Endpoint },
		regexp.MustCompile(`^https?://[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[-a-zA-Z0-9._~/]*)?$`), "a URL such as https://s3.example.com",
	},
	"region": {func(d *backupv1.Destination) *string { return &d.Region }, regexp.MustCompile(`^[a-zA-Z0-9][-a-zA-Z0-9]{0,63}$`), "a region such as eu-central-1"},
	"caBundle": {
		func(d *backupv1.Destination) *string { return &d.CABundle }, regexp.MustCompile(`^-----BEGIN CERTIFICATE-----(?s:.)*$`), "certificates in PEM",
	},
	"serverSideEncryption": {
		func(d *backupv1.Destination) *string { return &d.ServerSideEncryption }, regexp.MustCompile(`^(AES256|aws:kms)$`), "AES256 or aws:kms",
	},
	"kmsKeyID": {func(d *backupv1.Destination) *string { return &d.KMSKeyID }, regexp.MustCompile(`^[a-zA-Z0-9][-a-zA-Z0-9:/_]*$`), "the ID or the ARN of a key"},
	"credentialsSecret": {
		func(d *backupv1.Destination) *string { return &d.CredentialsSecret },
		regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`), "the name of a Secret",
	},
}

// maxLengths bound the values whose patterns do not. A namespace and a slash follow the prefix, whose
// maximum in the CRD is 512.
var maxLengths = map[string]int{"caBundle": 65536, "credentialsSecret": 253, "kmsKeyID": 2048, "endpoint": 512, "prefix": 512 - 64}

// ParseDestination returns the default destination with these fields, by their names in
// spec.destination of a Backup. Without fields, it returns none. An error names the field, the
// problem, and the solution.
func ParseDestination(fields map[string]string) (DefaultDestination, error) {
	if len(fields) == 0 {
		return DefaultDestination{}, nil
	}
	d := &backupv1.Destination{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, field := fields[name], destinationFields[name]
		if field.value == nil {
			return DefaultDestination{}, fmt.Errorf("%s: is not a field: use %s", name, strings.Join(slices.Sorted(maps.Keys(destinationFields)), ", "))
		}
		if limit := maxLengths[name]; !field.pattern.MatchString(value) || limit > 0 && len(value) > limit {
			return DefaultDestination{}, fmt.Errorf("%s: must be %s", name, field.form)
		}
		*field.value(d) = value
	}
	switch isS3 := d.Type == backupv1.DestinationS3; {
	case d.Type == "":
		return DefaultDestination{}, errors.New("type: is missing: set s3, gcs or azure")
	case strings.Contains(d.Prefix, ".."), strings.Contains(d.Prefix, "//"):
		return DefaultDestination{}, fmt.Errorf("prefix: must be %s", destinationFields["prefix"].form)
	case d.Bucket == "":
		return DefaultDestination{}, errors.New("bucket: is missing: set the name of a bucket")
	case !isS3 && (d.Region != "" || d.ServerSideEncryption != "" || d.KMSKeyID != ""):
		return DefaultDestination{}, errors.New("region, serverSideEncryption and kmsKeyID need type s3: remove them, or set type to s3")
	case d.KMSKeyID != "" && d.ServerSideEncryption != "aws:kms":
		return DefaultDestination{}, errors.New("kmsKeyID: needs serverSideEncryption aws:kms: set it, or remove kmsKeyID")
	}
	return DefaultDestination{d}, nil
}

// Destination returns the destination of a Backup that a database owns.
func Destination(given backupv1.Destination) *backupv1ac.DestinationApplyConfiguration {
	desired := backupv1ac.Destination().WithType(given.Type).WithBucket(given.Bucket)
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
		{desired.WithCredentialsSecret, given.CredentialsSecret},
	} {
		if field.value != "" {
			field.with(field.value)
		}
	}
	return desired
}

// Run returns the settings for the Jobs of a Backup that a database owns, or nil for the defaults.
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
