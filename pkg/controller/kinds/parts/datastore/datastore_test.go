// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
)

// claim returns a claim that was created for a template, with a size and a phase.
func claim(name string, made Template, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			databasev1.AnnotationVersion: made.Version, databasev1.AnnotationStorage: made.Storage, databasev1.AnnotationStorageClass: made.Class,
		}},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func TestDecide(t *testing.T) {
	old, bigger := Template{"16", "10Gi", "fast"}, Template{"16", "20Gi", "fast"}
	bound := corev1.ClaimBound
	leaving := claim("data-db-0", old, "10Gi", bound)
	leaving.DeletionTimestamp = &metav1.Time{}
	// with returns a claim with a class and a capacity, and with the condition of a failed enlargement
	// unless it is empty.
	with := func(claim *corev1.PersistentVolumeClaim, class, capacity string, failed corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaim {
		claim.Spec.StorageClassName = &class
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		if failed != "" {
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: failed, Status: corev1.ConditionTrue, Message: "no space"}}
		}
		return claim
	}
	unnamed := Template{"16", "10Gi", ""}
	tests := []struct {
		name     string
		desired  Template
		claims   []*corev1.PersistentVolumeClaim
		template Template
		resize   []string
		exist    bool
		reason   string
	}{
		{"no claims", old, nil, old, nil, false, ""},
		{"claims of others", bigger, []*corev1.PersistentVolumeClaim{
			claim("data-db-x", old, "10Gi", bound), claim("data-other-0", old, "10Gi", bound), claim("data-db-00", old, "10Gi", bound),
			claim("data-db--1", old, "10Gi", bound), claim("data-db-", old, "10Gi", bound),
		}, bigger, nil, false, ""},
		{"as desired", old, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "10Gi", bound)}, old, nil, true, ""},
		{"larger", bigger, []*corev1.PersistentVolumeClaim{
			claim("data-db-1", old, "20Gi", bound), claim("data-db-0", old, "10Gi", bound), claim("data-db-2", old, "10Gi", corev1.ClaimPending),
		}, old, []string{"data-db-0"}, true, ""},
		{"larger and leaving", bigger, []*corev1.PersistentVolumeClaim{leaving}, old, nil, true, ""},
		{"smaller", old, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "20Gi", bound)}, old, nil, true, databasev1.ReasonStorageShrinks},
		{"smaller in another unit", old, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "10241Mi", bound)}, old, nil, true, databasev1.ReasonStorageShrinks},
		{"another version", Template{"17", "10Gi", "fast"}, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "10Gi", bound)}, old, nil, true, databasev1.ReasonVersionChange},
		{"another version and smaller", Template{"17", "5Gi", "fast"}, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "10Gi", bound)}, old, nil, true, databasev1.ReasonVersionChange},
		{"another class", Template{"16", "10Gi", ""}, []*corev1.PersistentVolumeClaim{claim("data-db-0", old, "10Gi", bound)}, old, nil, true, databasev1.ReasonStorageClassChange},
		{"the default class by its name", old, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", unnamed, "10Gi", bound), "fast", "10Gi", ""), with(claim("data-db-1", unnamed, "10Gi", bound), "fast", "10Gi", ""),
		}, unnamed, nil, true, ""},
		{"a default class that has changed", old, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", unnamed, "10Gi", bound), "fast", "10Gi", ""), with(claim("data-db-1", unnamed, "10Gi", bound), "new", "10Gi", ""),
		}, unnamed, nil, true, databasev1.ReasonStorageClassChange},
		{"no default class", old, []*corev1.PersistentVolumeClaim{claim("data-db-0", unnamed, "10Gi", bound)}, unnamed, nil, true, databasev1.ReasonStorageClassChange},
		{"less than a failed enlargement", Template{"16", "15Gi", "fast"}, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "20Gi", bound), "fast", "10Gi", corev1.PersistentVolumeClaimControllerResizeError),
			with(claim("data-db-1", old, "15Gi", bound), "fast", "10Gi", ""),
		}, old, []string{"data-db-0"}, true, ""},
		{"the size before a failed enlargement", old, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "20Gi", bound), "fast", "10Gi", corev1.PersistentVolumeClaimControllerResizeError),
		}, old, nil, true, databasev1.ReasonStorageShrinks},
		{"less than one of two volumes", Template{"16", "15Gi", "fast"}, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "20Gi", bound), "fast", "10Gi", ""), with(claim("data-db-1", old, "20Gi", bound), "fast", "20Gi", ""),
		}, old, []string{"data-db-0"}, true, databasev1.ReasonStorageShrinks},
		{"failed enlargement", bigger, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "20Gi", bound), "fast", "10Gi", corev1.PersistentVolumeClaimNodeResizeError),
		}, old, nil, true, databasev1.ReasonStorageNotExpandable},
		{"enlargement under way", bigger, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "20Gi", bound), "fast", "10Gi", corev1.PersistentVolumeClaimFileSystemResizePending),
		}, old, nil, true, ""},
		{"a volume that is larger than requested", old, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "10Gi", bound), "fast", "20Gi", ""),
		}, old, nil, true, ""},
		{"the same size in another unit", Template{"16", "1024Gi", "fast"}, []*corev1.PersistentVolumeClaim{
			with(claim("data-db-0", old, "1Ti", bound), "fast", "1Ti", ""),
		}, old, nil, true, ""},
		{"a claim of a user", old, []*corev1.PersistentVolumeClaim{claim("data-db-0", Template{}, "10Gi", bound)}, old, nil, true, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var cached []*corev1.PersistentVolumeClaim
			for _, c := range test.claims {
				cached = append(cached, reduceClaim(c, metav1.ObjectMeta{Name: c.Name, DeletionTimestamp: c.DeletionTimestamp}))
			}

			v := decide("db", test.desired, cached)

			var resize []string
			for _, c := range v.resize {
				resize = append(resize, c.Name)
			}
			reason := ""
			if v.Problem != nil {
				reason = v.Problem.Reason
			}
			if v.Template != test.template || v.Exist != test.exist || reason != test.reason || !slices.Equal(resize, test.resize) {
				t.Errorf("got %+v, resize %q, reason %q, want %+v", v, resize, reason, test)
			}
		})
	}
}

// TestForgedAnnotationsAreIgnored: users who may edit claims must not choose the image or the size
// of volumes.
func TestForgedAnnotationsAreIgnored(t *testing.T) {
	desired := Template{"16", "10Gi", ""}
	for _, forged := range []Template{
		{"16@evil.example.com/image", "10Gi", ""},
		{"11", "10Gi", ""},
		{"19", "10Gi", ""},
		{"", "10Gi", ""},
		{"17", "0Gi", ""},
		{"17", "10", ""},
		{"17", "10Gi\n", ""},
		{"17", "", ""},
		{"17", "10Gi", "Fast"},
		{"17", "10Gi", "a b"},
		{"17", "10Gi", strings.Repeat("a", 254)},
	} {
		whole := claim("data-db-0", forged, "10Gi", corev1.ClaimBound)

		v := decide("db", desired, []*corev1.PersistentVolumeClaim{reduceClaim(whole, metav1.ObjectMeta{Name: whole.Name})})

		if v.Template != desired || v.Problem != nil || !v.Exist {
			t.Errorf("%+v: got %+v, %+v", forged, v, v.Problem)
		}
	}
	made := Template{"17", "5Gi", "fast.io"}
	whole := claim("data-db-0", made, "10Gi", corev1.ClaimBound)
	if v := decide("db", desired, []*corev1.PersistentVolumeClaim{reduceClaim(whole, metav1.ObjectMeta{Name: whole.Name})}); v.Template != made {
		t.Errorf("annotations of the operator: got %+v", v)
	}
}

func TestAdviceFollowsRefusal(t *testing.T) {
	for refusal, want := range map[string]string{
		"only dynamically provisioned pvc can be resized":                "allow expansion in the StorageClass",
		"exceeded quota: small, requested: requests.storage=10Gi":        "raise the ResourceQuota",
		`User "operator" cannot patch resource "persistentvolumeclaims"`: "allow the operator to patch PersistentVolumeClaims",
	} {
		if got := advice(refusal); got != want {
			t.Errorf("%s: got %q, want %q", refusal, got, want)
		}
	}
}

func TestExistingClaimsOfAnotherName(t *testing.T) {
	leaving := claim("data-shop-db-1", Template{}, "10Gi", corev1.ClaimBound)
	leaving.DeletionTimestamp = &metav1.Time{}
	others := []*corev1.PersistentVolumeClaim{claim("data-shop-0", Template{}, "10Gi", corev1.ClaimBound)}

	none, some := existing("shop-db", others), existing("shop-db", append(others, leaving))

	if none.Exist || !some.Exist || some.leaving != leaving.Name {
		t.Errorf("got %+v and %+v", none, some)
	}
}

// TestReducedSecretHasNoPassword: passwords are not cached.
func TestReducedSecretHasNoPassword(t *testing.T) {
	layout := Layout{Names: map[string]string{"username": "app"}, Password: "password", Generated: []string{"replication-password"}}
	whole := &corev1.Secret{Data: map[string][]byte{
		"username": []byte("shop"), "password": []byte("secret"), "replication-password": []byte("another"), "theirs": []byte("theirs"),
	}}

	reduced := layout.reduce(whole, metav1.ObjectMeta{Name: "db"})
	again := layout.reduce(reduced, reduced.ObjectMeta)

	want := map[string][]byte{"username": []byte("shop"), "password": usable, "replication-password": usable}
	if diff := cmp.Diff(want, again.Data); diff != "" || layout.problem(again) != nil {
		t.Errorf("problem %v, data (-want +got):\n%s", layout.problem(again), diff)
	}
}

func TestUnusableValues(t *testing.T) {
	layout := Layout{Names: map[string]string{"username": "app"}, Reserved: []string{"postgres"}, Password: "password"}
	tests := []struct {
		username, password string
		usable             bool
	}{
		{"app", "secret", true},
		{strings.Repeat("a", 63), strings.Repeat("a", 256), true},
		{"_a1", `'"\$(x) :`, true},
		{"", "secret", false},
		{strings.Repeat("a", 64), "secret", false},
		{"App", "secret", false},
		{"a b", "secret", false},
		{"a\n", "secret", false},
		{"1a", "secret", false},
		{"postgres", "secret", false},
		{"pg_monitor", "secret", false},
		{"app", "", false},
		{"app", "a\nb", false},
		{"app", "secret\n", false},
		{"app", "a\x00", false},
		{"app", strings.Repeat("a", 257), false},
	}
	for _, test := range tests {
		secret := &corev1.Secret{Data: map[string][]byte{"username": []byte(test.username), "password": []byte(test.password)}}

		problem := layout.problem(layout.reduce(secret, metav1.ObjectMeta{}))

		if (problem == nil) != test.usable {
			t.Errorf("username %q, password %q: got %v", test.username, test.password, problem)
		}
	}
}

func TestGeneratedPasswordsDiffer(t *testing.T) {
	secrets := &Secrets{layout: Layout{Label: "l", Password: "password", Generated: []string{"replication-password"}}}
	owner := &metav1.ObjectMeta{Namespace: "ns", Name: "db"}

	first, second := secrets.generate(owner, "s"), secrets.generate(owner, "s")

	values := map[string]bool{}
	for _, value := range slices.Concat(slices.Collect(maps.Values(first.Data)), slices.Collect(maps.Values(second.Data))) {
		values[string(value)] = true
	}
	if len(values) != 4 {
		t.Errorf("%d different values, want 4", len(values))
	}
}
