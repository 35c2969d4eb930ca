package command

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes as a person writes it: 500MB, 32GiB, 4096. It is the value of a flag.
type Size uint64

// units of sizes. Of units with the same ending, the longer one is first.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},
	{"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// String returns the size in the largest unit, by 1024, that divides it.
func (s *Size) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if unit := uint64(units[u].bytes); uint64(*s) >= unit && uint64(*s)%unit == 0 {
			return strconv.FormatUint(uint64(*s)/unit, 10) + units[u].name
		}
	}
	return strconv.FormatUint(uint64(*s), 10)
}

// Type returns the name of the value in --help.
func (s *Size) Type() string { return "size" }

// Set parses what a person wrote.
func (s *Size) Set(text string) error {
	number, factor := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || n*factor >= 1<<62 {
		return fmt.Errorf("%q: want a size such as 500MB or 32GiB", text)
	}
	*s = Size(n * factor)
	return nil
}
