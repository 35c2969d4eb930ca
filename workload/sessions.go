package workload

import (
	"errors"
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// maxTurns is the maximum number of turns of a session.
const maxTurns = 10_000

// sessions makes conversations of random tokens: a shared system prompt, then in each turn a user message and, from the
// second turn on, the earlier answers.
type sessions struct {
	words    *vocabulary
	system   uint32
	turns    lengths
	isl, osl lengths // one sequence per session, by turn
	template uint32
	play     play
	busting  cacheBusting

	common  draw.Sequence // the system prompt
	asked   draw.Sequence // what users say
	planned draw.Sequence // planned answers
}

// newSessions checks the content and fills in defaults.
func newSessions(s *spatev1.SessionContent, c Config) (*sessions, error) {
	turns, isl, osl, err := sessionShapes(s)
	if err != nil {
		return nil, err
	}
	p := newPlay(s.GetPlay(), c)
	if err := p.checkForm(c.Form); err != nil {
		return nil, err
	}
	words, b, err := newBusting(c)
	if err != nil {
		return nil, err
	}
	return &sessions{
		words: words, system: s.GetSystem(), template: c.Template, play: p, busting: b,
		turns: newLengths(turns, c.Seed, "turns"), isl: newLengths(isl, c.Seed, "isl"),
		osl:    newLengths(osl, c.Seed, "osl"),
		common: draw.New(c.Seed, "system"), asked: draw.New(c.Seed, "content"), planned: draw.New(c.Seed, "answers"),
	}, nil
}

// sessionShapes returns the distributions of the lengths.
func sessionShapes(s *spatev1.SessionContent) (turns, isl, osl shape, err error) {
	if turns, err = shapeOf("turns", s.GetTurns(), s.GetTurnCounts()); err != nil {
		return nil, nil, nil, err
	}
	if isl, err = shapeOf("isl", s.GetIsl(), s.GetIslLengths()); err != nil {
		return nil, nil, nil, err
	}
	if osl, err = shapeOf("osl", s.GetOsl(), s.GetOslLengths()); err != nil {
		return nil, nil, nil, err
	}
	if n := turns.longest(); n > maxTurns {
		return nil, nil, nil, fmt.Errorf("workload: sessions can have up to %d turns: "+
			"set the max of turn_counts to at most %d", n, maxTurns)
	}
	if n := longestSession(s.GetSystem(), turns, isl, osl); n > math.MaxUint32 {
		return nil, nil, nil, fmt.Errorf("workload: sessions can grow to %d tokens, more than %d: "+
			"use fewer or shorter turns", n, uint32(math.MaxUint32))
	}
	return turns, isl, osl, nil
}

// longestSession returns the tokens, prompt and output together, of the longest last turn.
func longestSession(system uint32, turns, isl, osl shape) uint64 {
	return uint64(system) + uint64(turns.longest())*(uint64(isl.longest())+uint64(osl.longest()))
}

// addedTokens returns how many tokens of content a turn adds. The server adds those of its template once.
func (w *sessions) addedTokens(isl lengths, turn int) uint64 {
	n := isl.at(uint64(turn))
	if turn == 0 {
		n = contentTokens(n, w.template)
	}
	return uint64(n)
}

// Spec returns the lengths of a turn, assuming that each answer has the length that was asked for.
//
// The ISL is the sum of the system prompt, all user messages and all answers. A chat template adds tokens to each
// message, and the number added to a one-message prompt does not tell the number added to longer prompts. If the server
// is known to add tokens, the ISL of prompts of several messages is therefore 0, not known.
//
// Shared is what an earlier request started with too: the system prompt, then the whole history if it holds the
// server's own answers. With planned answers, Shared ends with the previous turn's prompt.
func (w *sessions) Spec(index uint64, turn int) (Spec, error) {
	turns, err := w.turnCount(index, turn)
	if err != nil {
		return Spec{}, err
	}
	isl, osl := w.isl.of(index), w.osl.of(index)
	s := Spec{OSL: osl.at(uint64(turn)), Turns: turns, Pause: w.play.pause(index, turn)}
	if w.play.server {
		s.Previous = turn
	}
	history := uint64(w.system)
	for t := range turn {
		history += w.addedTokens(isl, t) + uint64(osl.at(uint64(t)))
	}
	s.Shared = uint32(w.shared(index, turn, history, osl))
	if w.template == 0 || turn == 0 && w.system == 0 {
		s.ISL = serverISL(uint32(history)+isl.at(uint64(turn)), w.template)
	}
	return s, nil
}

// turnCount returns how many turns a session has, and an error if it has no such turn.
func (w *sessions) turnCount(index uint64, turn int) (int, error) {
	turns := int(w.turns.at(index))
	if turn < 0 || turn >= turns {
		return 0, fmt.Errorf("workload: turn %d of session %d does not exist: the session has %d turns, counted from 0",
			turn, index, turns)
	}
	return turns, nil
}

// shared returns how many tokens of the history an earlier request started with.
func (w *sessions) shared(index uint64, turn int, history uint64, osl lengths) uint64 {
	switch {
	case turn == 0 && (index == 0 || w.busting.on):
		return 0
	case turn == 0 || w.play.server:
		return history
	default:
		return history - uint64(osl.at(uint64(turn-1)))
	}
}

// AppendPrompt appends the conversation up to a turn.
func (w *sessions) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	if _, err := w.turnCount(r.Index, r.Turn); err != nil {
		return dst, err
	}
	if err := w.play.check(r); err != nil {
		return dst, err
	}
	t := open(dst, r.Form, w.words)
	isl, osl := w.isl.of(r.Index), w.osl.of(r.Index)
	asked, planned := w.asked.Sub(r.Index), w.planned.Sub(r.Index)
	own := w.addedTokens(isl, 0)
	unique := w.busting.uniqueTokens(w.words, r.Form, uint64(w.system)+own)
	if w.system > 0 {
		t.begin(system)
		w.appendAt(&t, r.Index, w.common, unique, 0, uint64(w.system))
		t.end()
	}
	t.begin(user)
	w.appendAt(&t, r.Index, asked.Sub(0), unique, uint64(w.system), own)
	t.end()
	for turn := range r.Turn {
		w.play.answer(&t, r, turn, func() { t.tokens(planned.Sub(uint64(turn)), 0, uint64(osl.at(uint64(turn)))) })
		t.begin(user)
		t.tokens(asked.Sub(uint64(turn+1)), 0, w.addedTokens(isl, turn+1))
		t.end()
	}
	return t.close(), nil
}

// appendAt appends n tokens of a sequence that stand at a place of the session. Tokens that lie within the session's
// unique start are replaced by those of the unique start.
func (w *sessions) appendAt(t *transcript, index uint64, tokens draw.Sequence, unique, place, n uint64) {
	replaced := min(max(unique, place)-place, n)
	t.tokens(w.busting.starts.Sub(index), place, replaced)
	t.tokens(tokens, replaced, n-replaced)
}

// Close does nothing: there is no file.
func (w *sessions) Close() error { return nil }

// play is how the turns of a session follow one another.
type play struct {
	server      bool    // the history holds the server's answers
	scale       float64 // of the delays of rows
	mean        time.Duration
	exponential bool
	pauses      draw.Sequence
}

// newPlay reads the plan's settings. A nil p has the defaults.
func newPlay(p *spatev1.SessionPlay, c Config) play {
	x := play{mean: p.GetThinkTime().GetMean().AsDuration(), scale: 1, pauses: draw.New(c.Seed, "pauses"),
		exponential: p.GetThinkTime().GetDistribution() == "exponential",
		server:      p.GetHistory() == "" || p.GetHistory() == "server"}
	if p != nil && p.DelayScale != nil {
		x.scale = p.GetDelayScale()
	}
	return x
}

// checkForm returns an error if a history cannot be sent in the form that the target takes.
func (p play) checkForm(form Form) error {
	if p.server && form == TokenIDs {
		return errors.New("workload: a history with the server's answers cannot be sent as token ids, " +
			"because servers answer with text: " +
			"set history to planned, the target's prompts to text, or its api to chat")
	}
	return nil
}

// pause returns the time between the previous answer and a turn. An exponential pause is -mean x ln(u), at most 36.8
// times the mean.
func (p play) pause(index uint64, turn int) time.Duration {
	switch {
	case turn == 0:
		return 0
	case p.exponential:
		return time.Duration(float64(p.mean) * -math.Log(p.pauses.Sub(index).Unit(uint64(turn))))
	default:
		return p.mean
	}
}

// answer writes the answer to an earlier turn into a transcript: the server's answer, or what planned writes. A turn
// without an answer gets an empty one, so that user and assistant alternate, as chat templates require.
func (p play) answer(t *transcript, r Request, turn int, planned func()) {
	t.begin(assistant)
	if p.server {
		t.answer(r.Answers[turn])
	} else {
		planned()
	}
	t.end()
}

// check returns an error for a request whose history cannot be written.
func (p play) check(r Request) error {
	if p.server && len(r.Answers) < r.Turn {
		return fmt.Errorf("workload: turn %d of session %d needs the answers to the %d turns before it, "+
			"but %d were given", r.Turn, r.Index, r.Turn, len(r.Answers))
	}
	return nil
}
