package requests

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// drawRecord returns a row with values in about half of its fields.
func drawRecord(random *rand.Rand) *spatev1.RequestRecord {
	r := &spatev1.RequestRecord{}
	for i := range fields.Len() {
		f, m, n := fields.Get(i), r.ProtoReflect(), random.Uint64()>>random.IntN(64)
		if random.IntN(2) == 0 {
			continue
		}
		switch {
		case f.IsList():
			r.ItlNs = []int64{int64(n), 0, -1}
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("text"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(n%2 == 0))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(protoreflect.EnumNumber(n%5)))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(uint32(n)))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(-int64(n)))
		default:
			m.Set(f, protoreflect.ValueOfUint64(n))
		}
	}
	return r
}

// A row has what the message has, whatever was in its place before.
func TestARowHasTheFieldsOfItsMessage(t *testing.T) {
	random, got := rand.New(rand.NewPCG(1, 2)), &row{}
	for range 500 {
		want := drawRecord(random)
		encoded, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.decode(record{stage: &spatev1.Stage{Index: 3}, encoded: encoded}); err != nil {
			t.Fatal(err)
		}
		for i := range fields.Len() {
			f, n := fields.Get(i), got.numbers[fields.Get(i).Number()]
			v, has := want.ProtoReflect().Get(f), want.ProtoReflect().Has(f)
			same := has == got.has(f.Number())
			switch of := v.Interface().(type) {
			case bool:
				same = same && of == (n != 0)
			case string:
				same = same && (!has || of == string(got.texts[f.Number()]))
			case protoreflect.EnumNumber:
				same = same && int64(of) == n
			case int64:
				same = same && of == n
			case uint32:
				same = same && int64(of) == n
			case uint64:
				same = same && int64(of) == n
			default:
				same = same && slices.Equal(want.GetItlNs(), got.gaps())
			}
			if !same {
				t.Fatalf("%s is %v, want %v", f.Name(), n, v)
			}
		}
		if got.index != want.GetIndex() || got.turn != want.GetTurn() || got.numbers[0] != 3 {
			t.Fatalf("request %d, turn %d, stage %d", got.index, got.turn, got.numbers[0])
		}
	}
}

// What is not a row is an error, and nothing that is decoded ends the program.
func TestARowThatCannotBeRead(t *testing.T) {
	one := func(f protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.VarintType), v)
	}
	r, whole := &row{}, protowire.AppendBytes(protowire.AppendTag(nil, itlNs, protowire.BytesType), []byte{0x80})
	for _, encoded := range [][]byte{{0x08}, {0x80}, {0x0a, 0x7f}, protowire.AppendTag(nil, 99, protowire.VarintType)} {
		if r.decode(record{encoded: encoded}) == nil {
			t.Errorf("%x is read", encoded)
		}
	}
	for _, encoded := range [][]byte{whole, one(itlNs, 1), one(part, 1<<63)} {
		if err := r.decode(record{encoded: encoded}); err != nil {
			t.Error(err)
		}
		for i := range columns {
			columns[i].appendTo(nil, r)
			columns[i].plain(r)
		}
	}
}
