package calibration

import "fmt"

// Cores says on which cores the two processes run.
type Cores struct {
	// Agent and Simulator are the core numbers to which each process is bound. Nil: not bound.
	Agent     []int `json:"agent"`
	Simulator []int `json:"simulator"`
	// Total is the number of cores for both together.
	Total int `json:"all"`
}

// Separate reports whether each process has its own cores.
func (c *Cores) Separate() bool { return len(c.Agent) > 0 && len(c.Simulator) > 0 }

// counts returns how many cores each process may use.
func (c *Cores) counts() (agent, simulator int) {
	if c.Separate() {
		return len(c.Agent), len(c.Simulator)
	}
	return c.Total, c.Total
}

// splits returns how the usable cores are divided: the first as tried first, the others for a simulator that was at its
// limit before the agent. The agent gets the requested number of cores or, if that is 0, half of them, then half as
// many, down to one. The simulator gets the rest. If there is only one core, or the cores are not known, neither
// process is bound.
func splits(usable []int, forAgent, count int) ([]Cores, error) {
	if len(usable) < 2 {
		if forAgent > count {
			return nil, fmt.Errorf("cores: %d requested for the agent, but this process may use %d", forAgent, count)
		}
		return []Cores{{Total: count}}, nil
	}
	if forAgent >= len(usable) {
		return nil, fmt.Errorf("cores: %d requested for the agent, but the simulator needs one of the %d that this "+
			"process may use", forAgent, len(usable))
	}
	split := func(agent int) Cores {
		return Cores{Agent: usable[:agent], Simulator: usable[agent:], Total: count}
	}
	if forAgent > 0 {
		return []Cores{split(forAgent)}, nil
	}
	var all []Cores
	for agent := len(usable) / 2; agent > 0; agent /= 2 {
		all = append(all, split(agent))
	}
	return all, nil
}

// Splits returns where the processes of a configuration run. There are several if the simulator gets more cores when it
// is at its limit first. Its error is about Cores.
func (c *Config) Splits() ([]Cores, error) {
	all, err := splits(usableCores(), c.Cores, countCores())
	if err == nil && c.MeasureAll {
		all = all[:1]
	}
	return all, err
}
