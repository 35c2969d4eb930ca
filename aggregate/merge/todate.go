package merge

// Views of a stage to date, by window. A view is read shortly after the last agent has delivered a window. If the first
// snapshot of the next window arrives before that, the view is saved.

// ToDateOf returns what was measured from the stage's start to the end of a window. It returns false if that is not
// known, because a snapshot of a later window arrived before all of this window had.
func (s *Stage) ToDateOf(window uint32) (View, bool) {
	s.lock()
	defer s.mu.Unlock()
	if v, ok := s.toDates[window]; ok {
		return v, true
	}
	if s.highest != window {
		return View{}, false
	}
	v := s.toDate()
	return v, v.Window == window
}

// advance must be called before a snapshot is merged. If the snapshot is the first of a new window, and the window
// before is fully delivered and not forgotten, advance saves the view to date for ToDateOf. It saves none if windows
// or views to date are hidden.
func (s *Stage) advance(window uint32) {
	if window <= s.highest {
		return
	}
	before := s.highest
	s.highest = window
	if before < s.forgotten || s.hidden || s.undated || s.sums.Windows[before] == nil || len(s.behind(before)) > 0 {
		return
	}
	s.settle()
	s.toDates[before] = s.toDate()
}
