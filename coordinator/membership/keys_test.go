package membership

import "testing"

// keysOf is a Keys function with fixed keys.
func keysOf(keys ...string) func() ([][]byte, error) {
	return func() (out [][]byte, err error) {
		for _, k := range keys {
			out = append(out, []byte(k))
		}
		return out, nil
	}
}

const (
	oldKey = "old-old-old-old-"
	newKey = "new-new-new-new-"
)

// TestKeysChangeInThreeSteps: members of each step understand those of the step before and of the one after it. A
// member with the removed key alone does not get in.
func TestKeysChangeInThreeSteps(t *testing.T) {
	t.Parallel()
	steps := [][]string{{oldKey}, {oldKey, newKey}, {newKey, oldKey}, {newKey}}
	for i, keys := range steps[1:] {
		before, after := config("before", RoleAgent, 0), config("after", RoleAgent, 0)
		before.Keys, after.Keys = keysOf(steps[i]...), keysOf(keys...)
		a := join(t, before)
		after.Seeds = []string{a.Address()}
		b := join(t, after)
		await(t, a, 2)
		await(t, b, 2)
	}
	cfg, stale := config("new", RoleAgent, 0), config("stale", RoleAgent, 0)
	cfg.Keys, stale.Keys = keysOf(newKey), keysOf(oldKey)
	if _, err := join(t, stale).list.Join([]string{join(t, cfg).Address()}); err == nil {
		t.Error("a member with the removed key joined")
	}
}
