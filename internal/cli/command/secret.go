package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spate-load/spate/internal/files"
)

// maxSecret is the largest size of a secret, in bytes.
const maxSecret = 1 << 20

// Secret returns the value behind "env:NAME" or "file:PATH", without the line break at the end of a file. Any other
// text is the value itself.
func Secret(reference string) (string, error) {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		return value, nil
	}
	if path, ok := strings.CutPrefix(reference, "file:"); ok {
		data, err := files.ReadFile(path, maxSecret)
		if err != nil {
			return "", err
		}
		value := strings.TrimRight(string(data), "\r\n")
		if value == "" {
			return "", fmt.Errorf("the file %s is empty", path)
		}
		return value, nil
	}
	return reference, nil
}
