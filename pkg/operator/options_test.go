// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parse returns the options for args.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	options := NewOptions("demoapp-controller", "v1", "demoapp-system")
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	options.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return options
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string // the prefix of each line
	}{
		{name: "defaults"},
		{name: "everything off", args: []string{"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"}},
		{name: "free ports", args: []string{"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"}},
		{name: "IPv6", args: []string{"--metrics-bind-address=[::1]:8080"}},
		{name: "namespaces", args: []string{"--namespaces=a, b"}},
		{name: "highest verbosity", args: []string{"-v=7"}},
		{
			name: "one line for each invalid flag, in the order of --help",
			args: []string{"--namespaces=A", "--shutdown-timeout=0", "-v8", "--logging-format=yaml"},
			want: []string{"--namespaces=A: ", "--shutdown-timeout=0s: ", "--logging-format=yaml: ", "-v=8: "},
		},
		{name: "negative verbosity", args: []string{"-v=-1"}, want: []string{"-v=-1: "}},
		{name: "empty namespace", args: []string{"--namespaces=a,,b"}, want: []string{`--namespaces=a,,b: "" `}},
		{name: "bad namespaces", args: []string{"--namespaces=A,B"}, want: []string{`--namespaces=A,B: "A" `}},
		{name: "address without a port", args: []string{"--metrics-bind-address=localhost"}, want: []string{"--metrics-bind-address=localhost: "}},
		{name: "bare port", args: []string{"--health-probe-bind-address=8081"}, want: []string{"--health-probe-bind-address=8081: "}},
		{name: "port out of range", args: []string{"--metrics-bind-address=:65536"}, want: []string{"--metrics-bind-address=:65536: port "}},
		{
			name: "two endpoints with the same address",
			args: []string{"--metrics-bind-address=:9000", "--health-probe-bind-address=:9000"},
			want: []string{"--health-probe-bind-address=:9000: is also the address of --metrics-bind-address"},
		},
		{
			name: "two of three endpoints with the same address",
			args: []string{"--metrics-bind-address=:9000", "--pprof-bind-address=:9000"},
			want: []string{"--pprof-bind-address=:9000: is also the address of --metrics-bind-address"},
		},
		{name: "bad pprof address", args: []string{"--pprof-bind-address=x"}, want: []string{"--pprof-bind-address=x: "}},
		{
			name: "lease shorter than the renew deadline",
			args: []string{"--leader-elect-lease-duration=10s"},
			want: []string{"--leader-elect-renew-deadline=10s: must be shorter than --leader-elect-lease-duration=10s"},
		},
		{
			name: "lease duration with a fraction of a second",
			args: []string{"--leader-elect-lease-duration=10500ms"},
			want: []string{"--leader-elect-lease-duration=10.5s: "},
		},
		{
			name: "retry period too long",
			args: []string{"--leader-elect-retry-period=9s"},
			want: []string{"--leader-elect-renew-deadline=10s: must be longer than 10.8s"},
		},
		{name: "shards", args: []string{"--shards=64"}},
		{name: "too many shards", args: []string{"--shards=65"}, want: []string{"--shards=65: must be between 1 and 64"}},
		{
			name: "shards without a leader", args: []string{"--shards=2", "--leader-elect=false"},
			want: []string{"--shards=2: needs leader election"},
		},
		{name: "secure metrics", args: []string{"--metrics-secure", "--metrics-cert-dir=/certificates"}},
		{
			name: "secure metrics that are off",
			args: []string{"--metrics-secure", "--metrics-bind-address=0"},
			want: []string{"--metrics-secure=true: needs --metrics-bind-address, which is 0"},
		},
		{
			name: "certificates of metrics without TLS",
			args: []string{"--metrics-cert-dir=/certificates"},
			want: []string{"--metrics-cert-dir=/certificates: is used only with --metrics-secure"},
		},
		{name: "no retry period", args: []string{"--leader-elect-retry-period=0"}, want: []string{"--leader-elect-retry-period=0s: "}},
		{name: "bad lease name", args: []string{"--leader-elect-resource-name=A"}, want: []string{"--leader-elect-resource-name=A: "}},
		{name: "bad lease namespace", args: []string{"--leader-elect-resource-namespace=a.b"}, want: []string{"--leader-elect-resource-namespace=a.b: "}},
		{name: "lease options are ignored without leader election", args: []string{"--leader-elect=false", "--leader-elect-lease-duration=1s"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			if err := parse(t, test.args...).Validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(test.want) {
				t.Fatalf("Validate() = %q, want %q", got, test.want)
			}
			for i, line := range got {
				if !strings.HasPrefix(line, test.want[i]) {
					t.Errorf("line %d = %q, want it to begin with %q", i, line, test.want[i])
				}
			}
		})
	}
}

func TestComplete(t *testing.T) {
	pod, elsewhere := surroundings{hostname: "me", namespace: "here"}, surroundings{hostname: "me"}
	tests := []struct {
		name           string
		args           []string
		from           surroundings
		namespaces     []string
		leaseNamespace string
	}{
		{name: "defaults", from: pod, leaseNamespace: "here"},
		{name: "no namespaces", from: pod, args: []string{"--namespaces="}, leaseNamespace: "here"},
		{
			name: "namespaces are trimmed and deduplicated", from: pod, args: []string{"--namespaces=b, a,b"},
			namespaces: []string{"a", "b"}, leaseNamespace: "here",
		},
		{name: "lease in another namespace", from: pod, args: []string{"--leader-elect-resource-namespace=there"}, leaseNamespace: "there"},
		{name: "no pod", from: elsewhere, leaseNamespace: "demoapp-system"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(t, test.args...).complete(test.from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.namespaces, got.Namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			if got.LeaderElection.ResourceNamespace != test.leaseNamespace {
				t.Errorf("namespace of the lease = %q, want %q", got.LeaderElection.ResourceNamespace, test.leaseNamespace)
			}
			if host, unique, _ := strings.Cut(got.identity, "_"); host != "me" || len(unique) != 36 {
				t.Errorf("identity = %q, want me_UUID", got.identity)
			}
		})
	}
	if _, err := parse(t, "--shutdown-timeout=0").complete(pod); err == nil {
		t.Error("complete() of invalid options succeeded")
	}
}
