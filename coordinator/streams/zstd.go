package streams

import (
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
)

// Zstd is the name of the compression of messages between a relay and its coordinator: grpc.UseCompressor(Zstd). A
// server answers with the compression of the call.
const Zstd = "zstd"

func init() { encoding.RegisterCompressor(compressor{}) }

// maxWindow bounds the memory that a message of a peer can make a decoder take, in bytes. An encoder of the fastest
// level uses half of it.
const maxWindow = 8 << 20

// compressor compresses messages for gRPC, which bounds their size after decompression.
type compressor struct{}

// Name returns the name of the encoding in gRPC's headers.
func (compressor) Name() string { return Zstd }

var (
	encoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // the options are valid
		}
		return e
	}}
	decoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic(err) // the options are valid
		}
		return d
	}}
)

// Compress returns a writer whose Close completes one message.
func (compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	e := encoders.Get().(*zstd.Encoder) //nolint:forcetypeassert // the pool holds nothing else
	e.Reset(w)
	return &encoder{e}, nil
}

// encoder returns its encoder to the pool when the message is complete.
type encoder struct{ *zstd.Encoder }

// Close completes the message.
func (e *encoder) Close() error {
	defer encoders.Put(e.Encoder)
	return e.Encoder.Close()
}

// Decompress returns a reader of one message.
func (compressor) Decompress(r io.Reader) (io.Reader, error) {
	d := decoders.Get().(*zstd.Decoder) //nolint:forcetypeassert // the pool holds nothing else
	if err := d.Reset(r); err != nil {
		return nil, err
	}
	return &decoder{d}, nil
}

// decoder returns its decoder to the pool at the end of the message.
type decoder struct{ *zstd.Decoder }

// Read reads the message.
func (d *decoder) Read(p []byte) (int, error) {
	if d.Decoder == nil {
		return 0, io.EOF
	}
	n, err := d.Decoder.Read(p)
	if err == io.EOF { //nolint:errorlint // an error of this reader itself
		decoders.Put(d.Decoder)
		d.Decoder = nil
	}
	return n, err
}
