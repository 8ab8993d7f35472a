// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// recordType is the type of the Secrets that hold release records.
	recordType = "helm.sh/release.v1"

	// largeContent is the size in bytes from which on it is worth the time to compress
	// well what differs between the records of a chart. A Secret holds 1 MiB.
	largeContent = 64 << 10

	// maxChartParts and maxChartPartBytes bound the charts that are held compressed,
	// besides those of records in the cache.
	maxChartParts     = 16
	maxChartPartBytes = 8 << 20
)

// Compressors. Each has about a megabyte of tables, a hundred times what it
// compresses.
var (
	fastDeflaters = sync.Pool{New: func() any { return newDeflater(flate.BestSpeed) }}
	goodDeflaters = sync.Pool{New: func() any { return newDeflater(flate.BestCompression) }}
	inflaters     = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

func newDeflater(level int) *flate.Writer {
	writer, err := flate.NewWriter(nil, level)
	if err != nil {
		panic(fmt.Sprintf("flate: %v", err)) // The levels are constants.
	}
	return writer
}

// deflate compresses content, and ends it as end does.
func deflate(deflaters *sync.Pool, content []byte, end func(*flate.Writer) error) ([]byte, error) {
	deflater := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(deflater)
	var deflated bytes.Buffer
	deflater.Reset(&deflated)
	if _, err := deflater.Write(content); err != nil {
		return nil, err
	}
	if err := end(deflater); err != nil {
		return nil, err
	}
	return bytes.Clone(deflated.Bytes()), nil // The buffer is larger, and this is kept.
}

// recordCodec writes release records, and reads them again, as Helm does: JSON,
// compressed, in base64. Most of a record is its chart, which is the same in all
// records made from it. So the chart comes first, and is compressed once; the rest
// follows as further blocks of the same stream.
type recordCodec struct {
	mu    sync.Mutex
	parts map[[sha256.Size]byte]*chartPart
	bytes int
}

// chartPart is the beginning of records that have the same chart.
type chartPart struct {
	// chart is shared by all releases that are read. It must not be changed.
	chart    *chartv2.Chart
	deflated []byte
	checksum uint32
	length   int
	nodes    int
}

// size is about what the part takes in memory, in bytes: compressed, and parsed.
func (p *chartPart) size() int { return len(p.deflated) + p.length + nodeBytes*p.nodes }

// recordContent is the content of one record, but for its labels.
type recordContent struct {
	// part is nil when the record has no chart.
	part *chartPart
	// rest is the deflated end of the JSON, which begins after the chart.
	rest []byte
	// length is that of the whole JSON, in bytes.
	length int
	// labels are the release's own.
	labels map[string]string
}

func newRecordCodec() *recordCodec {
	return &recordCodec{parts: map[[sha256.Size]byte]*chartPart{}}
}

// part returns what records of the chart begin with.
func (c *recordCodec) part(chart *chartv2.Chart) (*chartPart, error) {
	content, err := json.Marshal(chart)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	c.mu.Lock()
	defer c.mu.Unlock()
	if part, ok := c.parts[digest]; ok {
		return part, nil
	}
	part := &chartPart{chart: &chartv2.Chart{}, nodes: jsonNodes(content)}
	if err := json.Unmarshal(content, part.chart); err != nil {
		return nil, err
	}
	beginning := slices.Concat([]byte(`{"chart":`), content, []byte(","))
	part.length, part.checksum = len(beginning), crc32.ChecksumIEEE(beginning)
	// It ends its last block, and not the stream.
	if part.deflated, err = deflate(&goodDeflaters, beginning, (*flate.Writer).Flush); err != nil {
		return nil, err
	}
	if len(c.parts) >= maxChartParts || c.bytes+part.size() > maxChartPartBytes {
		clear(c.parts)
		c.bytes = 0
	}
	c.parts[digest] = part
	c.bytes += part.size()
	return part, nil
}

// encode returns the content of the release's record, and the record itself. The
// part is that of the release's chart; nil when it has none.
func (c *recordCodec) encode(rls *releasev1.Release, part *chartPart) (*recordContent, []byte, error) {
	others := *rls
	others.Chart = nil
	rest, err := json.Marshal(&others)
	if err != nil {
		return nil, nil, fmt.Errorf("encode revision %d of release %s: %w", rls.Version, rls.Name, err)
	}
	var beginning chartPart
	if part != nil {
		beginning, rest = *part, rest[1:]
	}
	deflaters := &fastDeflaters
	if len(rest) >= largeContent {
		deflaters = &goodDeflaters
	}
	deflated, err := deflate(deflaters, rest, (*flate.Writer).Close)
	if err != nil {
		return nil, nil, err
	}
	// RFC 1952: magic number, method, flags, time, hints, an unknown system; at the
	// end checksum and length of what was compressed.
	stream := slices.Concat([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, beginning.deflated, deflated)
	stream = binary.LittleEndian.AppendUint32(stream, crc32.Update(beginning.checksum, crc32.IEEETable, rest))
	stream = binary.LittleEndian.AppendUint32(stream, uint32(beginning.length+len(rest))) //nolint:gosec // The RFC wants it modulo 2^32.
	encoded := make([]byte, base64.StdEncoding.EncodedLen(len(stream)))
	base64.StdEncoding.Encode(encoded, stream)
	return &recordContent{part: part, rest: deflated, length: beginning.length + len(rest)}, encoded, nil
}

// release reads the content. The release has no labels: those are the Secret's.
func (c *recordContent) release() (*releasev1.Release, error) {
	inflater := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(inflater)
	if err := inflater.(flate.Resetter).Reset(bytes.NewReader(c.rest), nil); err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if c.part != nil {
		content.WriteByte('{')
	}
	if _, err := content.ReadFrom(inflater); err != nil {
		return nil, err
	}
	rls := &releasev1.Release{}
	if err := json.Unmarshal(content.Bytes(), rls); err != nil {
		return nil, err
	}
	if c.part != nil {
		rls.Chart = c.part.chart
	}
	return rls, nil
}

const (
	// maxRecordNodes bounds how many values, keys and brackets of JSON a record may have
	// outside of texts.
	maxRecordNodes = 100_000
	// maxUnverifiedNodes is the same for all the records together that one operation
	// reads and cannot verify.
	maxUnverifiedNodes = 20_000
	// nodeBytes is about what a node takes in memory once it is parsed.
	nodeBytes = 110
)

// recordSize is how large a record is, decompressed.
type recordSize struct{ bytes, nodes int }

// within reports whether the size is within a limit.
func (s recordSize) within(limit recordSize) bool {
	return s.bytes <= limit.bytes && s.nodes <= limit.nodes
}

// decodeRecord reads a record as Helm's own driver does, but only up to a limit: a Secret
// of a kilobyte can hold a gigabyte of zeros.
func decodeRecord(record []byte, limit recordSize) (*releasev1.Release, recordSize, error) {
	content, err := decompressRecord(record, limit.bytes)
	if err != nil {
		return nil, recordSize{}, err
	}
	size := recordSize{bytes: len(content), nodes: jsonNodes(content)}
	if !size.within(limit) {
		return nil, size, fmt.Errorf("it has more than %d bytes or %d values", limit.bytes, limit.nodes)
	}
	rls := &releasev1.Release{}
	if err := json.Unmarshal(content, rls); err != nil {
		return nil, size, fmt.Errorf("parse: %w", err)
	}
	return rls, size, nil
}

// decompressRecord returns at most a byte more than the limit.
func decompressRecord(record []byte, limit int) ([]byte, error) {
	content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(record)))
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b, 8}) {
		inflater, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if content, err = io.ReadAll(io.LimitReader(inflater, int64(limit)+1)); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
	}
	return content, nil
}

// jsonNodes is an upper bound for the values in a JSON text, found without parsing it.
func jsonNodes(content []byte) int {
	nodes, inText := 1, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{', c == '[', c == ',', c == ':':
			nodes++
		}
	}
	return nodes
}

// secretOf is the Secret of a record as Helm's own driver writes it; at is
// the label that says when: createdAt or modifiedAt.
func secretOf(key string, rls *releasev1.Release, record []byte, at string) *corev1.Secret {
	labels := maps.Clone(rls.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[at] = strconv.FormatInt(time.Now().Unix(), 10)
	labels[recordName], labels["owner"] = rls.Name, "helm"
	labels[recordStatus], labels[recordVersion] = rls.Info.Status.String(), strconv.Itoa(rls.Version)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Labels: labels},
		Type:       recordType,
		Data:       map[string][]byte{"release": record},
	}
}

// releaseLabels are the labels of a record's Secret that are the release's own.
func releaseLabels(labels map[string]string) map[string]string {
	own := maps.Clone(labels)
	for _, system := range driver.GetSystemLabels() {
		delete(own, system)
	}
	return own
}
