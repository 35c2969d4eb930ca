package rules

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RegionLabel is the label that stands for an agent's region.
const RegionLabel = "region"

// MaxLabels is the largest number of labels of an agent or a selector.
const MaxLabels = 32

// label is the form of the names and values of labels.
var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,62})$`)

// CheckLabel returns what is wrong with a label, in a plan or of an agent. nil if nothing is.
func CheckLabel(name, value string) error {
	switch {
	case !label.MatchString(name):
		return errors.New("its name must be 1 to 63 letters, digits and ._/-, the first a letter or digit")
	case name == RegionLabel && value != "":
		return CheckRegion(value)
	case !label.MatchString(value):
		return fmt.Errorf("the value of %s must be 1 to 63 letters, digits and ._/-, the first a letter or digit", name)
	}
	return nil
}

// Labels reads labels as a person types them, each NAME=VALUE.
func Labels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%.80q: want NAME=VALUE, such as pool=big", text)
		}
		if err := CheckLabel(name, value); err != nil {
			return nil, fmt.Errorf("%.80q: %w", text, err)
		}
		if _, again := labels[name]; again {
			return nil, fmt.Errorf("%.80q: the label %s is given twice", text, name)
		}
		labels[name] = value
	}
	if len(labels) > MaxLabels {
		return nil, fmt.Errorf("%d labels: want at most %d", len(labels), MaxLabels)
	}
	return labels, nil
}

// LabelTexts lists labels by name, each NAME=VALUE: the opposite of Labels.
func LabelTexts(labels map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return list
}

// agents checks the selector of a plan's agents.
func (c *checker) agents(p *spatev1.Plan) {
	const labels, count = "agents.labels", "agents.count"
	s := p.GetAgents()
	if c.Has("agents") && len(s.GetLabels()) == 0 && s.GetCount() == 0 {
		c.wrong("agents", "selects nothing: give labels or count, for example {labels: {pool: big}, count: 10}, or leave it out")
	}
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		if err := CheckLabel(name, s.GetLabels()[name]); err != nil {
			c.wrong(labels+"["+strconv.Quote(name)+"]", err.Error())
		}
	}
	if len(p.GetRegions()) > 0 && s.GetLabels()[RegionLabel] != "" {
		c.wrong(labels+"["+strconv.Quote(RegionLabel)+"]", "regions say already which regions take part: give one of the two")
	}
	if n := len(p.GetRegions()); s.GetCount() > 0 && int(s.GetCount()) < n {
		c.wrong(count, fmt.Sprintf("must be at least the number of regions, %d, got %d", n, s.GetCount()))
	}
}
