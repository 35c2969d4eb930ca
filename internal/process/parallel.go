package process

import (
	"flag"
	"strconv"
)

// Parallel lets n tests of a package run at once, unless a person has set -parallel. TestMain calls it in packages
// whose tests wait for networks, programs and clocks more than they need processors: Go runs as many at once as there
// are processors.
func Parallel(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if set {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
