package plans

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.yaml
var shipped embed.FS

// Shipped returns the names of the plans that come with the program, sorted.
func Shipped() []string {
	entries, err := shipped.ReadDir(".")
	if err != nil {
		panic("plans: the embedded plans cannot be listed: " + err.Error()) // They are part of the binary.
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Open returns the YAML of a shipped plan, by its name with or without ".yaml".
func Open(name string) ([]byte, error) {
	data, err := shipped.ReadFile(strings.TrimSuffix(name, ".yaml") + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no plan named %q is shipped, only %s: %w", name, strings.Join(Shipped(), ", "), err)
	}
	return data, nil
}
