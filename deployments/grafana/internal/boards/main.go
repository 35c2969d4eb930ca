package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: boards FOLDER")
		os.Exit(2)
	}
	for folder, files := range map[string][]File{
		"dashboards": All(), "dashboards-prometheus": Prometheus(),
	} {
		if err := write(filepath.Join(os.Args[1], folder), files); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func write(folder string, files []File) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		data, err := file.JSON()
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, file.Name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
