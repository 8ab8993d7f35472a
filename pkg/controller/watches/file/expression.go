// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// maxExpressionBytes limits the text of an expression.
	maxExpressionBytes = 32 << 10
	// maxIssues limits the errors of one expression that are reported.
	maxIssues = 3
	// maxCost limits the cost of an evaluation, in the units of CEL: about 20,000 steps of a comprehension. It is a tenth of
	// that of the API server (PerCallLimit). The tracker of the cost takes a time that grows with the square of the steps:
	// half a second at most for this limit, and ten seconds for PerCallLimit.
	maxCost = 100_000
	// maxValueBytes, maxValueNodes and maxValueDepth limit the result, as those of valuesFrom are limited.
	maxValueBytes = 1 << 20
	maxValueNodes = 20_000
	maxValueDepth = 100
)

// Expression computes the values of the chart from a resource. A nil expression gives the spec of the resource.
type Expression struct {
	text    string
	program cel.Program
}

// Compiler compiles expressions. The zero value is usable. A Compiler is safe for concurrent use.
type Compiler struct {
	once sync.Once
	env  *cel.Env
	err  error
}

// environment has the language and the libraries of Kubernetes 1.37, see DefaultCompatibilityVersion and baseOpts of
// k8s.io/apiserver/pkg/cel/environment. There are three exceptions. Lists and objects may have values of different
// types, because values of charts do. The library of the authorizer does not exist. Neither does lists.range, whose
// result is allocated before its cost is known.
func (c *Compiler) environment() (*cel.Env, error) {
	c.once.Do(func() {
		c.env, c.err = cel.NewEnv(
			cel.Variable("self", cel.DynType),
			cel.DefaultUTCTimeZone(true),
			cel.CrossTypeNumericComparisons(true),
			cel.OptionalTypes(),
			cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
			cel.ParserExpressionSizeLimit(maxExpressionBytes),
			ext.Strings(ext.StringsVersion(2)),
			ext.Sets(),
			ext.TwoVarComprehensions(),
			library.URLs(),
			library.Regex(),
			library.Lists(library.ListsVersion(1)),
			library.Quantity(),
			library.IP(),
			library.CIDR(),
			library.Format(),
			library.SemverLib(library.SemverVersion(1)),
		)
	})
	return c.env, c.err
}

// Compile compiles a CEL expression. Its variable self is the resource, and its result must be an object. The error says
// what is wrong, with the line and column within the expression.
//
// The result of a function is computed before its cost is known. So an expression should not pass several texts of a
// resource to replace, whose result can be as long as their product.
func (c *Compiler) Compile(text string) (*Expression, error) {
	if len(text) > maxExpressionBytes {
		return nil, fmt.Errorf("has %d bytes, and may have %d", len(text), maxExpressionBytes)
	}
	env, err := c.environment()
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	if kind := compiled.OutputType(); !isObject(kind) {
		return nil, fmt.Errorf("is a CEL expression of type %s; it must give an object with texts as keys", kind)
	}
	program, err := env.Program(compiled,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(maxCost),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return nil, fmt.Errorf("is not a valid CEL expression: %w", err)
	}
	return &Expression{text: text, program: program}, nil
}

// compileError returns the first errors of an expression in one line.
func compileError(issues *cel.Issues) error {
	var all []string
	for i, issue := range issues.Errors() {
		if i == maxIssues {
			break
		}
		text := strings.ReplaceAll(issue.Message, " (in container '')", "")
		all = append(all, fmt.Sprintf("%s (line %d, column %d)", text, issue.Location.Line(), issue.Location.Column()+1))
	}
	return fmt.Errorf("is not a valid CEL expression: %s", strings.Join(all, "; "))
}

// isObject reports whether a type is an object with texts as keys, or can turn out to be one.
func isObject(kind *cel.Type) bool {
	if kind.Kind() == types.DynKind {
		return true
	}
	if kind.Kind() != types.MapKind {
		return false
	}
	key := kind.Parameters()[0].Kind()
	return key == types.StringKind || key == types.DynKind || key == types.TypeParamKind
}

// String returns the text of the expression; empty for nil.
func (e *Expression) String() string {
	if e == nil {
		return ""
	}
	return e.text
}

// Evaluate returns the values of a resource. Those of a nil expression are its spec itself, not a copy. It fails if the expression fails or costs too much, or if its result is not an object, or too large.
// The error names the field values and the resource. It can show texts of the resource.
func (e *Expression) Evaluate(ctx context.Context, resource *unstructured.Unstructured) (map[string]any, error) {
	if e == nil {
		return specOf(resource)
	}
	result, _, err := e.program.ContextEval(ctx, map[string]any{"self": resource.Object})
	if err != nil {
		return nil, runtimeError("values", resource, err)
	}
	converted, err := (&conversion{}).convert(result, 0)
	if err != nil {
		return nil, runtimeError("values", resource, err)
	}
	object, ok := converted.(map[string]any)
	if !ok {
		return nil, runtimeError("values", resource, fmt.Errorf("the expression gives %s, and must give an object", result.Type().TypeName()))
	}
	return object, nil
}

// specOf returns the spec of a resource, and no values for a resource without one.
func specOf(resource *unstructured.Unstructured) (map[string]any, error) {
	switch spec := resource.Object["spec"].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return spec, nil
	default:
		return nil, runtimeError("values", resource, errNoSpec)
	}
}

// conversion converts the result of an expression to values as JSON has them, within the limits.
type conversion struct{ nodes, bytes int }

func (c *conversion) convert(value ref.Val, depth int) (any, error) {
	if c.nodes++; c.nodes > maxValueNodes || depth > maxValueDepth {
		return nil, fmt.Errorf("the result has more than %d values, or is more than %d deep", maxValueNodes, maxValueDepth)
	}
	switch value := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(value), nil
	case types.Int:
		return int64(value), nil
	case types.Uint:
		if value > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large", uint64(value))
		}
		return int64(value), nil
	case types.Double:
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			return nil, errors.New("the result has a number that JSON does not have: NaN or infinity")
		}
		return float64(value), nil
	case types.String:
		return c.text(string(value))
	case types.Bytes:
		return c.text(base64.StdEncoding.EncodeToString(value))
	case traits.Mapper:
		return c.object(value, depth)
	case traits.Lister:
		return c.list(value, depth)
	case types.Timestamp, types.Duration:
		text, ok := value.ConvertToType(types.StringType).(types.String)
		if ok {
			return c.text(string(text))
		}
	}
	return nil, fmt.Errorf("the result has a value of type %s, which JSON does not have", value.Type().TypeName())
}

func (c *conversion) text(text string) (string, error) {
	if c.bytes += len(text); c.bytes > maxValueBytes {
		return "", fmt.Errorf("the result has more than %d bytes", maxValueBytes)
	}
	return text, nil
}

func (c *conversion) object(value traits.Mapper, depth int) (map[string]any, error) {
	object := map[string]any{}
	for keys := value.Iterator(); keys.HasNext() == types.True; {
		key := keys.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a key of type %s; a key must be a text", key.Type().TypeName())
		}
		if _, err := c.text(string(name)); err != nil {
			return nil, err
		}
		item, err := c.convert(value.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
}

func (c *conversion) list(value traits.Lister, depth int) ([]any, error) {
	list := []any{}
	for items := value.Iterator(); items.HasNext() == types.True; {
		item, err := c.convert(items.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
