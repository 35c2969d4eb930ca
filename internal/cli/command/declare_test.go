package command

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type server struct {
	URL   string `flag:"KIND-url" help:"the <URL> of a KIND server"`
	Retry bool   `flag:"KIND-retry" default:"true"`
}

type kinds string

// everything has a flag of each type and each tag.
type everything struct {
	_      struct{} `group:"all"`
	Mode   kinds    `flag:"mode" default:"fast" oneof:"fast, slow"`
	Word   string   `flag:"word" words:"a, b" typed:"only" short:"w"`
	Bare   string   `flag:"bare" bare:"10"`
	Nested struct {
		Least time.Duration `flag:"least" default:"90s"`
		Size  Size          `flag:"size" default:"32GiB"`
	} `group:"nested"`
	server `with:"KIND=influx"`
	Small  int32     `flag:"small"`
	Counts []int     `flag:"counts"`
	Slots  []uint    `flag:"slots"`
	Rates  []float64 `flag:"rates"`
	Names  []string  `flag:"names"`
	Whole  []string  `flag:"whole" commas:"kept"`
	Preset uint64    `flag:"preset"`
	hidden int
	Other  int
}

func TestDeclare(t *testing.T) {
	v := everything{Preset: 7}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Declare(flags, &v)
	if v.Mode != "fast" || v.Nested.Least != 90*time.Second || v.Nested.Size != 32<<30 || !v.Retry || v.Preset != 7 {
		t.Errorf("defaults: %+v", v)
	}
	for name, want := range map[string]string{"least": "1m30s", "size": "32GiB", "preset": "7", "rates": "", "counts": "[]"} {
		if got := flags.Lookup(name).DefValue; got != want {
			t.Errorf("--%s shows %q, want %q", name, got, want)
		}
	}
	err := flags.Parse([]string{"--mode=slow", "-w", "x", "--bare", "--least", "2s", "--influx-url=u", "--small=-1",
		"--counts=1,2", "--slots", "3", "--rates=0.5", "--names=a,b", "--whole=a,b", "--whole=c"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Mode != "slow" || v.Word != "x" || v.Bare != "10" || v.Nested.Least != 2*time.Second || v.URL != "u" ||
		v.Small != -1 || len(v.Counts) != 2 || v.Slots[0] != 3 || v.Rates[0] != 0.5 || len(v.Names) != 2 ||
		!slices.Equal(v.Whole, []string{"a,b", "c"}) || v.hidden != 0 {
		t.Errorf("parsed: %+v", v)
	}
	if err := flags.Set("mode", "odd"); err == nil || !strings.Contains(err.Error(), "want fast or slow") {
		t.Errorf("--mode odd: %v", err)
	}
	if name, usage := pflag.UnquoteUsage(flags.Lookup("influx-url")); name != "URL" || usage != "the URL of a influx server" {
		t.Errorf("%q, %q", name, usage)
	}
	if got := strings.Join(Words(flags.Lookup("mode"))[:1], ""); got != "fast" || len(Words(flags.Lookup("word"))) != 2 {
		t.Errorf("completed: %q", got)
	}
	if !isTypedOnly(flags.Lookup("word")) || isTypedOnly(flags.Lookup("mode")) {
		t.Error("only --word is typed only")
	}
	if got := flags.Lookup("size").Annotations[group][0] + flags.Lookup("mode").Annotations[group][0]; got != "nestedall" {
		t.Errorf("groups: %s", got)
	}
}
