package aggregate

// What came to date, window by window. It is looked at a moment after the last agent has delivered a window; where the
// first of the next one comes before that, it is kept.

// ToDateOf returns what was measured from the stage's start to the end of a window, false if that cannot be told:
// something of a later window came before all of this one had.
func (s *Stage) ToDateOf(window uint32) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.dates[window]; ok {
		return v, true
	}
	if s.foremost != window {
		return View{}, false
	}
	v := s.toDate()
	return v, v.Window == window
}

// advance comes before the merge of a snapshot: if it is the first of a new window, all of the one before has come and
// it has not been shown, then what came to date is kept for that. Single windows that nobody looks at need none.
func (s *Stage) advance(window uint32) {
	if window <= s.foremost {
		return
	}
	before := s.foremost
	s.foremost = window
	if before < s.forgotten || s.hidden || s.windows[before] == nil || s.owed(before) {
		return
	}
	s.dates[before] = s.toDate()
}
