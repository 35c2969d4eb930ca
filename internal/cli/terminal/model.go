package terminal

import (
	"fmt"
	"runtime/debug"

	tea "charm.land/bubbletea/v2"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// model is the screen's state: the run, and what a person chose to see of it. Its methods are pure but for ask.
type model struct {
	run     *watch.Run
	id      string
	about   string // what a simulation is. Empty: there is none
	watches bool
	ask     func(Wish)

	width, height int
	chosen        *uint32 // stage to show; nil: the one in progress
	panel         int
	scroll        [panelCount]int
	asking        bool   // whether the run shall stop
	wished        string // what was asked of the run, in words
	fault         error  // a bug of this package; the screen ends
}

func newModel(o ScreenOptions) *model {
	m := &model{run: watch.New(), id: o.RunID, watches: o.Watches, ask: o.Ask}
	if o.Plan != nil {
		m.about = plans.SimulationWords(o.Plan)
	}
	return m
}

// Init does nothing.
func (m *model) Init() tea.Cmd { return nil }

// Update takes in an event of the run, a key, or a new size.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) { return m, m.take(msg) }

// take is Update without the model.
func (m *model) take(msg tea.Msg) (cmd tea.Cmd) {
	defer m.rescue(&cmd)
	switch msg := msg.(type) {
	case *spatev1.RunEvent:
		m.run.Take(0, msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.key(msg.String())
	}
	return nil
}

// rescue ends the screen after a panic, or after one in View. The run must not end for it, and the library leaves a
// goroutine behind.
func (m *model) rescue(cmd *tea.Cmd) {
	if r := recover(); r != nil {
		m.fault = fmt.Errorf("this is a bug: %v\n%s", r, debug.Stack())
	}
	if m.fault != nil {
		*cmd = tea.Quit
	}
}

// View draws the screen.
func (m *model) View() (v tea.View) {
	defer m.rescue(new(tea.Cmd)) // the next event ends the screen
	v.AltScreen = true
	v.SetContent(m.draw())
	v.WindowTitle = "spate " + words.Printable(m.id)
	return v
}

// key does what a key asks for.
func (m *model) key(key string) tea.Cmd {
	if key == "ctrl+c" {
		m.wish(Interrupt)
		return nil
	}
	if m.asking {
		m.answer(key)
		return nil
	}
	switch key {
	case "q":
		m.quit()
	case "s":
		m.asking = true
	case "l":
		return tea.Quit
	default:
		m.look(key)
	}
	return nil
}

// quit leaves a run that is only watched, and asks before it stops one's own.
func (m *model) quit() {
	if m.watches {
		m.wish(Leave)
		return
	}
	m.asking = true
}

// answer takes the answer to whether the run shall stop.
func (m *model) answer(key string) {
	switch key {
	case "d":
		m.wish(Drain)
	case "c":
		m.wish(Cancel)
	case "esc", "n", "q":
	default:
		return
	}
	m.asking = false
}

// wish asks something of the run.
func (m *model) wish(w Wish) {
	switch {
	case w == Cancel:
		m.wished = "cancelling requests in flight"
	case w == Drain || w == Interrupt && !m.watches && m.wished == "":
		m.wished = "stopping: waiting for requests in flight"
	case w == Interrupt && !m.watches:
		m.wished = "cancelling requests in flight"
	}
	m.ask(w)
}

// look changes what is seen.
func (m *model) look(key string) {
	page := max(1, m.height/3)
	switch key {
	case "tab":
		m.panel = (m.panel + 1) % panelCount
	case "shift+tab":
		m.panel = (m.panel + panelCount - 1) % panelCount
	case "1", "2", "3", "4", "5":
		m.panel = int(key[0] - '1')
	case "left":
		m.choose(-1)
	case "right":
		m.choose(1)
	case "esc":
		m.chosen = nil
	case "up", "k":
		m.scroll[m.panel]--
	case "down", "j":
		m.scroll[m.panel]++
	case "pgup":
		m.scroll[m.panel] -= page
	case "pgdown", "space":
		m.scroll[m.panel] += page
	case "home":
		m.scroll[m.panel] = 0
	case "end":
		m.scroll[m.panel] = 1 << 30 // drawing limits it
	}
	m.scroll[m.panel] = max(0, m.scroll[m.panel])
}

// choose shows the stage before or after the one that is shown. Behind the stage in progress, the screen follows the
// run again.
func (m *model) choose(step int) {
	all, at := m.run.All(), m.stage()
	for i, s := range all {
		if s != at {
			continue
		}
		if next := i + step; next >= 0 && next < len(all) {
			index := all[next].Index
			m.chosen = &index
		}
		break
	}
	if s := m.stage(); s != nil && s == m.run.Current() {
		m.chosen = nil
	}
}

// stage returns the stage that is shown, nil if there is none yet.
func (m *model) stage() *watch.Stage {
	if m.chosen != nil {
		if s := m.run.Stage(*m.chosen); s != nil {
			return s
		}
	}
	return m.run.Current()
}
