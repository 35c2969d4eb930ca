package dataset

import "github.com/spate-load/spate/workload/rows"

// alpaca reads {"instruction": "...", "input": "...", "output": "..."}. The prompt is the instruction and, in a
// paragraph of its own, the input if there is one.
func (f *anyFile) alpaca(text []byte, row *rows.Row) (err error) {
	var instruction, input, output []byte
	for name, value := range members(text) {
		switch name {
		case "instruction":
			instruction, err = stringInside(name, value)
		case "input":
			input, err = stringInside(name, value)
		case "output":
			output, err = stringInside(name, value)
		default:
			f.unused.note(name)
		}
		if err != nil {
			return err
		}
	}
	if len(instruction) == 0 {
		return unusable("has an empty instruction")
	}
	prompt := string(instruction)
	if len(input) > 0 {
		prompt += paragraph + string(input)
	}
	f.text(prompt, output, row)
	return nil
}
