package agent

import "maps"

// secrets are the values of one run's secret references, in memory only. A coordinator that was started anew has them
// no more; the agent then goes on with those that came with earlier stages of the run. The zero value knows none. It is
// not safe for concurrent use.
type secrets struct {
	run    string
	values map[string]string
}

// with remembers the values that came with an assignment, and returns all that are known of its run. Those of another
// run are forgotten.
func (s *secrets) with(run string, came map[string]string) map[string]string {
	if s.run != run {
		s.run, s.values = run, nil
	}
	if s.values == nil {
		s.values = map[string]string{}
	}
	maps.Copy(s.values, came)
	return maps.Clone(s.values)
}
