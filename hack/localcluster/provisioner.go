// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The default StorageClass of a real node, and its provisioner.
const (
	storageClass = "directory"
	provisioner  = "localcluster/directory"
)

// provisionInterval is the time between two checks of claims and volumes. Two small lists cost less than the code of a watch.
const provisionInterval = 250 * time.Millisecond

// mountedVolumes is the folder of the volumes in the mount namespace of the node.
const mountedVolumes = mountedInstance + "/node/volumes"

// metadata has the fields of an object's metadata that matter here.
type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// volumeClaim has the fields of a PersistentVolumeClaim that matter here.
type volumeClaim struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		StorageClassName string   `json:"storageClassName"`
		VolumeName       string   `json:"volumeName"`
		VolumeMode       string   `json:"volumeMode"`
		AccessModes      []string `json:"accessModes"`
		Resources        struct {
			Requests map[string]string `json:"requests"`
		} `json:"resources"`
	} `json:"spec"`
}

// volume has the fields of a PersistentVolume that matter here.
type volume struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		ReclaimPolicy string `json:"persistentVolumeReclaimPolicy"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// storageClassInfo has the fields of a StorageClass that matter here.
type storageClassInfo struct {
	Metadata      metadata `json:"metadata"`
	Provisioner   string   `json:"provisioner"`
	ReclaimPolicy string   `json:"reclaimPolicy"`
}

// provision gives claims of the provisioner's StorageClasses a directory each, and removes the directories of released volumes,
// until ctx ends. A request that fails is repeated with the next look.
func provision(ctx context.Context, api *client, inst instance) {
	ticker := time.NewTicker(provisionInterval)
	defer ticker.Stop()
	for {
		if err := provisionOnce(ctx, api, inst.node("volumes")); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "provisioner: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func provisionOnce(ctx context.Context, api *client, dir string) error {
	var classes struct {
		Items []storageClassInfo `json:"items"`
	}
	var claims struct {
		Items []volumeClaim `json:"items"`
	}
	var volumes struct {
		Items []volume `json:"items"`
	}
	err := errors.Join(
		// Resource version 0 lets the API server answer from its cache.
		api.do(ctx, http.MethodGet, "/apis/storage.k8s.io/v1/storageclasses?resourceVersion=0", nil, &classes),
		api.do(ctx, http.MethodGet, "/api/v1/persistentvolumeclaims?resourceVersion=0", nil, &claims),
		api.do(ctx, http.MethodGet, "/api/v1/persistentvolumes?resourceVersion=0", nil, &volumes),
	)
	if err != nil {
		return err
	}
	policies := map[string]string{}
	for _, class := range classes.Items {
		if class.Provisioner == provisioner {
			policies[class.Metadata.Name] = class.ReclaimPolicy
		}
	}
	existing := map[string]bool{}
	for _, v := range volumes.Items {
		existing[v.Metadata.Name] = true
		if isReleased(v) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, v.Metadata.Name)), api.deleteVolume(ctx, v.Metadata.Name))
		}
	}
	for _, c := range claims.Items {
		name := "pvc-" + c.Metadata.UID
		policy, ours := policies[c.Spec.StorageClassName]
		if !ours || c.Spec.VolumeName != "" || c.Spec.VolumeMode == "Block" || existing[name] {
			continue
		}
		// Any user of a container may write, as in the volumes of most provisioners of directories.
		path := filepath.Join(dir, name)
		if err = errors.Join(err, os.MkdirAll(path, 0o777), os.Chmod(path, 0o777)); err == nil { //nolint:gosec // See above.
			err = api.createAll(ctx, []object{{path: "/api/v1/persistentvolumes", body: volumeOf(c, name, policy)}})
		}
	}
	return err
}

// deleteVolume deletes a volume. The list may show a volume that is gone.
func (c *client) deleteVolume(ctx context.Context, name string) error {
	err := c.do(ctx, http.MethodDelete, "/api/v1/persistentvolumes/"+name, nil, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return err
}

// isReleased reports whether a volume of the provisioner has lost its claim, and its data with it.
func isReleased(v volume) bool {
	return v.Metadata.Annotations["pv.kubernetes.io/provisioned-by"] == provisioner &&
		v.Spec.ReclaimPolicy == "Delete" && (v.Status.Phase == "Released" || v.Status.Phase == "Failed")
}

// volumeOf returns the volume of a claim. A local volume has fsGroup, which a hostPath does not.
func volumeOf(c volumeClaim, name, policy string) map[string]any {
	type fields = map[string]any
	return fields{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": fields{"name": name, "annotations": fields{"pv.kubernetes.io/provisioned-by": provisioner}},
		"spec": fields{
			"capacity": c.Spec.Resources.Requests, "accessModes": c.Spec.AccessModes, "persistentVolumeReclaimPolicy": policy,
			"storageClassName": c.Spec.StorageClassName, "local": fields{"path": mountedVolumes + "/" + name},
			"claimRef": fields{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": c.Metadata.Namespace, "name": c.Metadata.Name, "uid": c.Metadata.UID,
			},
			"nodeAffinity": fields{"required": fields{"nodeSelectorTerms": []fields{{"matchExpressions": []fields{
				{"key": "kubernetes.io/hostname", "operator": "In", "values": []string{realNodeName}},
			}}}}},
		},
	}
}
