// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"errors"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// A chart that is compiled into the program. Its go:embed directive needs the prefix "all:".
// Without it, files whose names begin with an underscore are left out.
func ExampleLoadFS() {
	demo, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(demo.Name(), demo.Version(), demo.AppVersion())

	_, err = chart.LoadFS(fstest.MapFS{"values.yaml": {}}, ".")
	fmt.Println(errors.Is(err, chart.ErrInvalid))
	// Output:
	// demo-app 0.1.0 1.27
	// true
}
