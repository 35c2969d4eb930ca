package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	const in = `{"ImportPath":"x","Action":"build-output","Output":"x.go:1: no such thing\n"}
not JSON
{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestWell"}
{"Action":"output","Package":"a","Test":"TestWell","Output":"=== RUN   TestWell\n"}
{"Action":"output","Package":"a","Test":"TestWell","Output":"    a_test.go:1: chatter\n"}
{"Action":"pass","Package":"a","Test":"TestWell"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"    a_test.go:2: no server\n"}
{"Action":"output","Package":"a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestSkip"}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t1.2s\n"}
{"Action":"pass","Package":"a"}
{"Action":"output","Package":"b","Test":"TestWrong","Output":"    b_test.go:3: 1 is not 2\n"}
{"Action":"fail","Package":"b","Test":"TestWrong"}
{"Action":"output","Package":"b","Test":"TestHangs","Output":"panic: timed out\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t3.4s\n"}
{"Action":"fail","Package":"b"}
`
	const want = `x.go:1: no such thing
not JSON
ok  	a	1.2s
    b_test.go:3: 1 is not 2
FAIL	b	3.4s
panic: timed out

1 tests and subtests passed, 2 failed, 1 did not run.
FAILED: b TestWrong
FAILED: b TestHangs
DID NOT RUN: a TestSkip
        a_test.go:2: no server
`
	var out strings.Builder
	if err := summarise(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
