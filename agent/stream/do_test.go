package stream

import (
	"testing"
)

func TestStream(t *testing.T) {
	s := newRawServer(t, answer(chunkedHead, chunk(roleFrame), chunk(tokenFrame("one")), chunk(tokenFrame("two")),
		chunk(finishFrame), chunk(usageFrame), chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for i := range 3 {
		o := ask(t, c)
		if o.Err != nil || o.Cancelled {
			t.Fatalf("failed: %v", o.Err)
		}
		if o.TokenFrames != 2 || len(o.Gaps) != 1 || !o.Usage || o.OutputTokens != 7 || o.InputTokens != 11 || o.FinishReason != "stop" {
			t.Fatalf("%+v", o)
		}
		if o.Connected != (i == 0) {
			t.Errorf("request %d: connected %v", i, o.Connected)
		}
		order := []int64{int64(o.Start), int64(o.FirstByte), int64(o.FirstFrame), int64(o.FirstToken), int64(o.LastToken), int64(o.End)}
		for k := 1; k < len(order); k++ {
			if order[k] < order[k-1] {
				t.Errorf("times out of order: %v", order)
			}
		}
		t.Logf("%+v", o)
	}
}
