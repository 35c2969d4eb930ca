package measure

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// FirstWindow returns the first window that a snapshot covers: its only window, unless its agent merged several.
func FirstWindow(s *spatev1.Snapshot) uint32 {
	if s.FirstWindow == nil {
		return s.GetWindow()
	}
	return min(s.GetFirstWindow(), s.GetWindow())
}
