package command

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestPrefer: a typed setting wins over the environment if the two exclude one another.
func TestPrefer(t *testing.T) {
	for name, tc := range map[string]struct {
		env     map[string]string
		args    []string
		leftOut string
		join    int
		address string
	}{
		"typed over set": {map[string]string{"SPATE_COORDINATOR": "h:1"}, []string{"--join", "a,b"},
			"coordinator", 2, ""},
		"the other way": {map[string]string{"SPATE_JOIN": "a,b"}, []string{"--coordinator", "h:2"},
			"join", 0, "h:2"},
		"both typed":       {nil, []string{"--join", "a", "--coordinator", "h:2"}, "", 1, "h:2"},
		"both set":         {map[string]string{"SPATE_JOIN": "a", "SPATE_COORDINATOR": "h:1"}, nil, "", 1, "h:1"},
		"one, and nothing": {nil, []string{"--join", "a"}, "", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			var join []string
			var address, leftOut string
			cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
				if err := Apply(cmd); err != nil {
					return err
				}
				leftOut = Prefer(cmd.Flags(), "join", "coordinator")
				return nil
			}}
			cmd.Flags().StringSliceVar(&join, "join", nil, "")
			cmd.Flags().StringVar(&address, "coordinator", "", "")
			AddFlag(cmd)
			cmd.SetArgs(tc.args)
			if err := cmd.Execute(); err != nil || leftOut != tc.leftOut || len(join) != tc.join ||
				address != tc.address {
				t.Errorf("%v, left out %q, join %v, coordinator %q", err, leftOut, join, address)
			}
		})
	}
}
