package supervisor

import "maps"

// secrets are the values of one run's secret references, in memory only. A restarted coordinator no longer has them;
// the agent then uses the values that came with earlier stages of the run. The zero value is empty. It is not safe for
// concurrent use.
type secrets struct {
	run    string
	values map[string]string
}

// with stores the values that came with an assignment, and returns all known values of its run. It forgets the values
// of any other run.
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
