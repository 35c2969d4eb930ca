package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// CordonsFile is the file in the data directory.
const CordonsFile = "cordons.json"

// Cordons are the agents that take no new runs, by name. Its methods may be called concurrently.
type Cordons struct {
	writing sync.Mutex // held while the file is written
	path    string
	mu      sync.Mutex // guards by, only for moments
	by      map[string]spatev1.Cordon
}

// Load reads what is kept in a directory. Without a file no agent is cordoned.
func (c *Cordons) Load(dir string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.path = filepath.Join(dir, CordonsFile)
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cordoned agents: %w", err)
	}
	words := map[string]string{}
	if err := json.Unmarshal(text, &words); err != nil {
		return fmt.Errorf("cordoned agents: %s: %w: correct or remove it", c.path, err)
	}
	by := map[string]spatev1.Cordon{}
	for name, said := range words {
		to, ok := spatev1.Cordon_value[prefix+strings.ToUpper(said)]
		if !ok {
			return fmt.Errorf("cordoned agents: %s: agent %s is %q, want cordoned or drained: correct or remove it", c.path,
				name, said)
		}
		by[name] = spatev1.Cordon(to)
	}
	c.set(by)
	return nil
}

// prefix starts the names of the protocol's values.
const prefix = "CORDON_"

// Set changes agents, which are given by name, and writes the file. It blocks until the change is durable. An error
// changes nothing.
func (c *Cordons) Set(names []string, to spatev1.Cordon) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	by, words := c.All(), map[string]string{}
	for _, name := range names {
		if by[name] = to; to == spatev1.Cordon_CORDON_UNSPECIFIED {
			delete(by, name)
		}
	}
	for name, is := range by {
		words[name] = strings.ToLower(strings.TrimPrefix(is.String(), prefix))
	}
	text, err := json.MarshalIndent(words, "", "  ")
	if err != nil {
		return err
	}
	if err := files.Replace(c.path, append(text, '\n')); err != nil {
		return fmt.Errorf("cordoned agents: %w", err)
	}
	c.set(by)
	return nil
}

func (c *Cordons) set(by map[string]spatev1.Cordon) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by = by
}

// All returns a copy of all agents that take no new runs. It never waits for the disk.
func (c *Cordons) All() map[string]spatev1.Cordon {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		return map[string]spatev1.Cordon{}
	}
	return maps.Clone(c.by)
}

// Of returns what is said of an agent. It never waits for the disk.
func (c *Cordons) Of(name string) spatev1.Cordon {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[name]
}
