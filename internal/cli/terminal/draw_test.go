package terminal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var update = flag.Bool("update", false, "write the expected screens")

// part returns what a part of a stage measured: the more, the later the window.
func part(name, region string, second uint32) *spatev1.WindowPart {
	p := &spatev1.WindowPart{
		Name: name, Region: region, Seconds: 1, Started: 8, Completed: 7, Failed: uint64(second % 2),
		FramesPerSecond:       400,
		OutputTokensPerSecond: new(400 + 10*float64(second)),
	}
	for i, metric := range []string{"ttft_ms", "e2e_ms", "tpot_ms", "itl_ms"} {
		ms := float64(5*(i+1)) * (1 + float64(second%5)/4)
		p.Distributions = append(p.Distributions, &spatev1.WindowDistribution{
			Metric: metric, Count: 7, Mean: ms, P50: ms, P90: 1.5 * ms, P99: 2 * ms, Max: 3 * ms,
		})
	}
	return p
}

// events returns the events of a run of two stages on 30 agents in two regions, which is in its second stage.
func events() []*spatev1.RunEvent {
	start := &spatev1.RunStarted{Stages: 8}
	for i := range 30 {
		region := []string{"eu", "us"}[i/15]
		start.Agents = append(start.Agents, &spatev1.AgentInfo{Name: fmt.Sprintf("%s-%02d", region, i%15+1), Region: region})
	}
	all := []*spatev1.RunEvent{{Event: &spatev1.RunEvent_RunStarted{RunStarted: start}}}
	for stage := range uint32(2) {
		all = append(all, stageEvents(stage, start.GetAgents())...)
		if stage == 0 {
			all = append(all, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{
				StageIndex: stage, Complete: true, Verdict: "VALID",
			}}})
		}
	}
	all = append(all, &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
		StageIndex: 1, Agent: start.GetAgents()[3], Reason: "it was silent for 3.5 s",
		Consequence: "taken over from second 16 on",
	}}})
	for i, e := range all {
		e.Time = timestamppb.New(time.Unix(1000+int64(i)/3, 0))
	}
	return all
}

func stageEvents(stage uint32, agents []*spatev1.AgentInfo) []*spatev1.RunEvent {
	all := []*spatev1.RunEvent{{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
		StageIndex: stage, Target: "vllm", Workload: "300:60", Load: fmt.Sprintf("concurrency %d", 4<<stage),
		Expected: durationpb.New(30 * time.Second), ExpectedRequests: 500,
	}}}}
	for second := range uint32(20) {
		w := &spatev1.StageWindow{
			StageIndex: stage, Number: second, PeakInFlight: 8, Whole: part("", "", second), Verdict: "SUSPECT",
			Regions: []*spatev1.WindowPart{part("eu", "", second), part("us", "", second)},
			Errors:  map[string]uint64{"http_500": uint64(second % 2), "timeout": 1},
			Doubts: []*spatev1.Doubt{
				{Check: "send_delay", Words: "99 % of the requests started up to 12 ms late, limit 5 ms",
					Remedy: "Give the run more agents or cores."},
				{Check: "isl", Words: "3 % of the prompts were not of the length asked", Remedy: "Name the tokenizer."},
			},
		}
		for _, a := range agents[:max(1, len(agents))-1] {
			w.Agents = append(w.Agents, part(a.GetName(), a.GetRegion(), second))
		}
		all = append(all, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: w}},
			&spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
				StageIndex: stage, Elapsed: durationpb.New(time.Duration(second+1) * time.Second),
				Completed: uint64(8 * (second + 1)), Failed: uint64(second), InFlight: 8,
				OutputTokensPerSecond: proto.Float64(590), FramesPerSecond: 400,
				Ttft: &spatev1.Quantiles{P50Ms: 6.5, P99Ms: 24}, Tpot: &spatev1.Quantiles{P50Ms: 5.2, P99Ms: 5.3},
			}}})
	}
	return all
}

// shown returns a model that has seen events.
func shown(width, height int, of []*spatev1.RunEvent, keys ...string) *model {
	m := newModel(ScreenOptions{RunID: "quick-1", Ask: func(Wish) {}})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, e := range of {
		m.Update(e)
	}
	m.draw()
	for _, k := range keys {
		m.key(k)
		m.draw() // which limits how far panels scroll
	}
	return m
}

// The screens are as expected, in the sizes of terminals that people have.
func TestScreens(t *testing.T) {
	t.Setenv("TZ", "UTC")
	for name, m := range map[string]*model{
		"80x24":         shown(80, 24, events()),
		"80x24-scroll":  shown(80, 24, events(), "down", "pgdown", "end"),
		"80x24-first":   shown(80, 24, events(), "left", "3"),
		"80x24-verdict": shown(80, 24, events(), "4"),
		"80x24-stop":    shown(80, 24, events(), "s"),
		"80x24-waiting": shown(80, 24, nil),
		"200x50":        shown(200, 50, events(), "2"),
		"40x12":         shown(40, 12, events()),
		"20x5":          shown(20, 5, events()),
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for line := range strings.SplitSeq(ansi.Strip(m.draw()), "\n") {
				lines = append(lines, strings.TrimRight(line, " "))
			}
			got := strings.Join(lines, "\n") + "\n"
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Whatever servers and coordinators say, in terminals of any size and after any keys: the screen has the size of the
// terminal, and nothing in it but colours controls the terminal.
func TestAnyWordsInAnySize(t *testing.T) {
	words := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"\x1b]0;title\a", "\x1b[2J\x1b[H", "a\r\nb", "\u202eright to left", "日本語の名前", "\x9b2J", "\ufe0f", "", strings.Repeat("long ", 100),
	}))
	rapid.Check(t, func(t *rapid.T) {
		all := events()
		say := func() string { return words.Draw(t, "words") }
		all = append(all,
			&spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
				Severity: spatev1.Severity(rapid.IntRange(0, 4).Draw(t, "severity")), Text: say(),
			}}},
			&spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
				Agent: &spatev1.AgentInfo{Name: say(), Region: say()}, Reason: say(), Consequence: say(),
			}}},
			&spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
				StageIndex: 2, Target: say(), Workload: say(), Load: say(),
			}}},
			&spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: &spatev1.StageWindow{
				StageIndex: 2, Whole: part("", "", 0), Regions: []*spatev1.WindowPart{part(say(), "", 0)},
				Errors: map[string]uint64{say(): 1}, Verdict: say(),
				Doubts: []*spatev1.Doubt{{Check: say(), Words: say(), Remedy: say()}},
			}}},
			&spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{
				StageIndex: 3, Failure: say(),
			}}},
		)
		width, height := rapid.IntRange(0, 220).Draw(t, "width"), rapid.IntRange(0, 60).Draw(t, "height")
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"tab", "shift+tab", "left", "right", "up", "down", "pgdown",
			"end", "esc", "s", "n", "1", "4", "5"}), 0, 8).Draw(t, "keys")
		screen := shown(width, height, all[rapid.IntRange(0, len(all)-1).Draw(t, "first"):], keys...).draw()
		lines := strings.Split(screen, "\n")
		if len(lines) > max(1, height) || height >= minHeight && width >= minWidth && len(lines) != height {
			t.Fatalf("%d lines in %d", len(lines), height)
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > width {
				t.Fatalf("%d columns in %d: %q", w, width, line)
			}
			for _, r := range colours.ReplaceAllString(line, "") {
				if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
					t.Fatalf("%q", line)
				}
			}
		}
	})
}

// Keys ask for what they say, and only after a confirmation for the end of one's own run.
func TestKeys(t *testing.T) {
	const stopping, cancelling = "stopping: waiting for requests in flight", "cancelling requests in flight"
	for name, c := range map[string]struct {
		watches bool
		keys    []string
		want    []Wish
		says    string
	}{
		"Ctrl-C at once":              {false, []string{"ctrl+c", "ctrl+c"}, []Wish{Interrupt, Interrupt}, cancelling},
		"Ctrl-C within a dialog":      {false, []string{"s", "ctrl+c"}, []Wish{Interrupt}, stopping},
		"stop, drain":                 {false, []string{"s", "d"}, []Wish{Drain}, stopping},
		"stop, cancel":                {false, []string{"s", "x", "c"}, []Wish{Cancel}, cancelling},
		"stop, not confirmed":         {false, []string{"s", "esc", "d", "c"}, nil, ""},
		"quit asks":                   {false, []string{"q", "n"}, nil, ""},
		"quit and drain":              {false, []string{"q", "d"}, []Wish{Drain}, stopping},
		"a watched run is left":       {true, []string{"q"}, []Wish{Leave}, ""},
		"Ctrl-C leaves a watched run": {true, []string{"ctrl+c"}, []Wish{Interrupt}, ""},
		"a watched run may stop":      {true, []string{"s", "d"}, []Wish{Drain}, stopping},
		"other keys ask for nothing":  {false, []string{"tab", "left", "right", "z", "up", "end", "9", "esc"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Wish
			m := newModel(ScreenOptions{Watches: c.watches, Ask: func(w Wish) { got = append(got, w) }})
			for _, k := range c.keys {
				m.key(k)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) || m.wished != c.says {
				t.Errorf("%v %q, want %v %q", got, m.wished, c.want, c.says)
			}
		})
	}
}

// Left and right choose a stage, which stays while the run continues; esc and the last stage follow the run again.
func TestStagesAreChosen(t *testing.T) {
	m := shown(80, 24, events())
	next := stageEvents(2, nil)[0]
	at := func() uint32 { return m.stage().Index }
	m.key("left")
	m.Update(next)
	if at() != 0 {
		t.Errorf("stage %d, want the chosen one", at())
	}
	m.key("left")
	m.key("right")
	if at() != 1 {
		t.Errorf("stage %d, want 1", at())
	}
	m.key("right")
	if at() != 2 || m.chosen != nil {
		t.Errorf("stage %d, chosen %v: the last one is followed", at(), m.chosen)
	}
	m.key("left")
	m.key("esc")
	if at() != 2 {
		t.Errorf("stage %d after esc", at())
	}
}
