package schedule

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FuzzShare reads valid and invalid stripes. Invalid stripes are refused with an error. Accepted stripes give each
// arrival to one rank, whenever it is due, and can be walked.
func FuzzShare(f *testing.F) {
	for _, m := range []*spatev1.Stripe{
		{},
		{Weights: []uint32{3, 1, 2}, Rank: 1},
		{Weights: []uint32{0, 0}},
		{Weights: []uint32{1<<32 - 1, 1}},
		{Weights: []uint32{1, 1}, Rank: 1<<32 - 1, Handovers: []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1}}}},
		{Weights: []uint32{1, 1}, Rank: 2, Handovers: []*spatev1.Handover{
			{FromRank: 1, Weights: []uint32{1, 0, 2}, FromNs: 5e6}, {Weights: []uint32{1, 0, 1}, FromNs: 2e6},
			{FromRank: 2, Weights: []uint32{0, 1}},
		}},
		{Weights: []uint32{2, 1}, Handovers: []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1},
			FromItems: []uint64{1 << 62, 1 << 62, 7}}}},
		{Weights: []uint32{1, 1}, Handovers: []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1}, FromNs: -1}}},
		{Weights: []uint32{1, 1}, Handovers: []*spatev1.Handover{{FromRank: 9, Weights: []uint32{1}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &spatev1.Stripe{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		s, err := NewShare(m)
		if err != nil {
			return
		}
		checkRevised(t, m, s)
		walkShare(t, s)
		checkOwners(t, m)
	})
}

// checkRevised adds the stripe's handovers one revision after the other. This must make the same share.
func checkRevised(t *testing.T, m *spatev1.Stripe, whole Share) {
	list := m.GetHandovers()
	s, err := NewShare(&spatev1.Stripe{Weights: m.GetWeights(), Rank: m.GetRank()})
	for i := range min(len(list), 20) {
		n := i + 1
		if i == 19 {
			n = len(list)
		}
		if err == nil {
			s, err = s.Revised(&spatev1.Stripe{Weights: m.GetWeights(), Rank: m.GetRank(), Handovers: list[:n]})
		}
	}
	if err != nil {
		t.Fatalf("read at once, but not by and by: %v", err)
	}
	for i := range uint64(50) {
		if due := time.Duration(i) * time.Millisecond; s.owns(i, due) != whole.owns(i, due) {
			t.Fatalf("arrival %d: %t by and by, %t at once", i, s.owns(i, due), whole.owns(i, due))
		}
	}
}

// walkShare takes some arrivals from loads of all kinds.
func walkShare(t *testing.T, s Share) {
	open, err := NewOpen(&spatev1.LoadPoint{Rate: 1000, Arrival: "constant", Requests: 200}, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := open.Next(); more; _, more = open.Next() {
	}
	closed, err := NewClosed(&spatev1.LoadPoint{Concurrency: 7, Requests: 200}, 1, s)
	if err != nil {
		return // a rank that is not lost gives
	}
	for range 200 {
		closed.Next(0)
	}
	for slot := range closed.Slots() {
		closed.Wake(slot, 0)
	}
	closed.Started()
}

// checkOwners checks that some arrivals have one owner, if there are few ranks.
func checkOwners(t *testing.T, m *spatev1.Stripe) {
	ranks := len(m.GetWeights())
	for _, h := range m.GetHandovers() {
		ranks = max(ranks, len(h.GetWeights()))
	}
	if ranks > 16 {
		return
	}
	var owned [50]int
	for rank := range uint32(ranks) {
		s, err := NewShare(&spatev1.Stripe{Weights: m.GetWeights(), Rank: rank, Handovers: m.GetHandovers()})
		if err != nil {
			t.Fatalf("refused for rank %d only: %v", rank, err)
		}
		for i := range owned {
			if s.owns(uint64(i), time.Duration(i)*time.Millisecond) {
				owned[i]++
			}
		}
	}
	for i, n := range owned {
		if n != 1 {
			t.Fatalf("arrival %d has %d owners", i, n)
		}
	}
}
