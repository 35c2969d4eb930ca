package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// This file finds the files of a subset and a split in a folder that Hugging Face's tools or Hub wrote.

// splitWords are the names of splits and the words in names of files that stand for them.
var splitWords = map[string]string{
	"train": "train", "training": "train",
	"validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
	"test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}

// maxCard is how much of a README.md is read for its front matter, in bytes.
const maxCard = 1 << 20

// HuggingFaceFiles returns the names of the files with a subset's split of a data set in a folder. The front matter of
// the folder's README.md says what it has, else the names of the files do: a split is a word in a file's or folder's
// name. The error lists what there is.
func HuggingFaceFiles(folder fs.FS, c *spatev1.FileContent) ([]string, error) {
	all, err := dataFiles(folder)
	if err != nil {
		return nil, err
	}
	card, err := readCard(folder)
	if err != nil {
		return nil, err
	}
	splits, err := card.splits(all, c.GetSubset())
	if err != nil {
		return nil, err
	}
	split, err := choose("split", c.GetSplit(), "", slices.Sorted(maps.Keys(splits)))
	if err != nil {
		return nil, err
	}
	if len(splits[split]) == 0 {
		return nil, fmt.Errorf("it has no file of the split %s", split)
	}
	return splits[split], nil
}

// dataFiles returns the files that may hold rows, by their paths, sorted.
func dataFiles(folder fs.FS) (all []string, err error) {
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && name != "."
		switch {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden || entry.IsDir():
			return nil
		}
		if HasRows(name) {
			all = append(all, name)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the folder has no file of rows: .parquet, .json, .jsonl, .csv or .txt")
	}
	return all, err
}

// HasRows reports whether a file may hold rows, by its name.
func HasRows(name string) bool {
	return slices.Contains([]string{".parquet", ".json", ".jsonl", ".csv", ".txt"}, extension(name))
}

// card is what the front matter of a README.md says about files.
type card struct {
	Configs []struct {
		Name  string    `yaml:"config_name"`
		Files yaml.Node `yaml:"data_files"`
		Dir   string    `yaml:"data_dir"`
	} `yaml:"configs"`
}

// readCard reads the front matter, if there is any.
func readCard(folder fs.FS) (c card, err error) {
	text, err := fs.ReadFile(folder, "README.md")
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	text = bytes.ReplaceAll(text[:min(len(text), maxCard)], []byte("\r\n"), []byte("\n"))
	front, found := bytes.CutPrefix(text, []byte("---\n"))
	if !found {
		return c, nil
	}
	front, _, _ = bytes.Cut(front, []byte("\n---"))
	if err := yaml.Unmarshal(front, &c); err != nil {
		return c, fmt.Errorf("README.md: its front matter: %w", err)
	}
	return c, nil
}

// splits returns the files of a subset by their splits.
func (c card) splits(all []string, subset string) (map[string][]string, error) {
	if len(c.Configs) == 0 {
		return splitsByName(all, subset)
	}
	var names []string
	for _, config := range c.Configs {
		names = append(names, config.Name)
	}
	name, err := choose("subset", subset, "default", names)
	if err != nil {
		return nil, err
	}
	config := c.Configs[slices.Index(names, name)]
	if config.Files.IsZero() {
		return splitsByName(all, config.Dir)
	}
	splits := map[string][]string{}
	for split, patterns := range patternsOf(&config.Files) {
		splits[split] = nil
		for _, pattern := range patterns {
			pattern = path.Join(config.Dir, pattern)
			for _, name := range all {
				if matches(pattern, name) && !slices.Contains(splits[split], name) {
					splits[split] = append(splits[split], name)
				}
			}
		}
	}
	return splits, nil
}

// patternsOf returns the patterns of data_files by split: a pattern, a list of patterns, or a list of splits with
// patterns. Patterns without a split are those of train.
func patternsOf(node *yaml.Node) map[string][]string {
	var files []struct {
		Split string    `yaml:"split"`
		Path  yaml.Node `yaml:"path"`
	}
	patterns := map[string][]string{}
	if node.Decode(&files) != nil {
		patterns["train"] = texts(node)
		return patterns
	}
	for _, f := range files {
		patterns[f.Split] = append(patterns[f.Split], texts(&f.Path)...)
	}
	return patterns
}

// texts returns the texts of a node that is a text or a list of texts.
func texts(node *yaml.Node) (list []string) {
	if node.Kind == yaml.ScalarNode {
		return []string{node.Value}
	}
	_ = node.Decode(&list) // a value of another type names no file
	return list
}

// matches reports whether a path matches a pattern, in which ** also stands for several folders.
func matches(pattern, name string) bool {
	expression := regexp.QuoteMeta(path.Clean(pattern))
	for _, r := range [][2]string{{`\*\*/`, `(.*/)?`}, {`\*\*`, `.*`}, {`\*`, `[^/]*`}, {`\?`, `[^/]`}} {
		expression = strings.ReplaceAll(expression, r[0], r[1])
	}
	matched, err := regexp.MatchString("^"+expression+"$", name)
	return matched && err == nil
}

// splitsByName returns the files below a folder by the splits that their names tell. Without any such name all files
// are those of train.
func splitsByName(all []string, dir string) (map[string][]string, error) {
	splits := map[string][]string{}
	var others []string
	for _, name := range all {
		rest := name
		if dir != "" {
			var below bool
			if rest, below = strings.CutPrefix(name, path.Clean(dir)+"/"); !below {
				continue
			}
		}
		if split := splitOf(rest); split != "" {
			splits[split] = append(splits[split], name)
		} else {
			others = append(others, name)
		}
	}
	switch {
	case len(splits) > 0:
	case len(others) == 0:
		return nil, fmt.Errorf("it has no files of rows in the folder %s", dir)
	default:
		splits["train"] = others
	}
	return splits, nil
}

// sharded is the name of one of several files of a split.
var sharded = regexp.MustCompile(`^(\w+)-\d{5}-of-\d{5}\b`)

// splitOf returns the split that a file's name tells, or else the name of its nearest folder that does.
func splitOf(name string) string {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		base := path.Base(name)
		for _, word := range strings.FieldsFunc(base, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if split := splitWords[strings.ToLower(word)]; split != "" {
				return split
			}
		}
		if m := sharded.FindStringSubmatch(base); m != nil {
			return m[1]
		}
	}
	return ""
}

// choose returns the asked name, else the only one or the usual one.
func choose(what, asked, usual string, names []string) (string, error) {
	switch {
	case asked != "" && slices.Contains(names, asked):
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("it has no %s %q, only: %s", what, asked, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	case usual != "" && slices.Contains(names, usual):
		return usual, nil
	}
	return "", fmt.Errorf("it has several %ss: give %s, one of %s", what, what, strings.Join(names, ", "))
}
