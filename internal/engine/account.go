package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// told is where the log of vLLM and of SGLang has settings, and the metrics of both.
	told = regexp.MustCompile(`(?m)(?:non-default args: |with config: |server_args=|^\w+:cache_config_info).*`)
	// setting is a name and a value, as Python, JSON and Prometheus write them.
	setting = regexp.MustCompile(`\b([a-z]\w*)(?:['"]\s*:\s*|=)['"]?([^\s,'"{}()\[\]]+)`)
	secret  = regexp.MustCompile(`(key|secret|password|token)$`)
	flag    = regexp.MustCompile(` --(no-)?([a-z][\w-]*)(?:[= ]([^\s-]\S*))?`)
	// chief are the settings that decide how fast an engine is.
	chief = regexp.MustCompile(`^(max_num_seqs|max_num_batched_tokens|enable_(chunked_prefill|prefix_caching)|dtype|` +
		`quantization|tensor_parallel_size|kv_cache_size_tokens|max_running_requests|chunked_prefill_size|tp_size|` +
		`mem_fraction_static|disable_radix_cache|total_slots|n_ctx)$`)
)

// Settings returns what the engine reports of its chief settings, and of those in the command that started it, in
// sentences, and where it contradicts that. Its answers count first, then the last lines of its log.
func (e *Engine) Settings(command []string, answers ...[]byte) (notes []string) {
	asked, says, said := map[string]string{}, map[string]string{}, []string{}
	for _, m := range flag.FindAllStringSubmatch(strings.Join(command, " "), -1) {
		asked[strings.ReplaceAll(m[2], "-", "_")] = cmp.Or(m[3], strconv.FormatBool(m[1] == ""))
	}
	log, _ := os.ReadFile(e.log.Name()) // without it the answers are told
	lines := told.FindAll(log[min(int(e.begin), len(log)):], -1)
	slices.Reverse(lines)
	for _, m := range setting.FindAllSubmatch(bytes.Join(slices.Concat(answers, lines), []byte("\n")), -1) {
		name, value := string(m[1]), string(m[2])
		of := chief.MatchString(name) || asked[name] != "" && !secret.MatchString(name)
		if _, known := says[name]; known || !of {
			continue
		}
		says[name], said = value, append(said, name+" "+value)
		if contradicts(asked[name], value) {
			notes = append(notes, fmt.Sprintf("The command sets %s to %s, the engine says %s.", name, asked[name], value))
		}
	}
	if slices.Sort(said); len(said) > 0 {
		notes = append([]string{"Settings, as the engine says: " + strings.Join(said, ", ") + "."}, notes...)
	}
	return notes
}

// contradicts reports whether two values are both numbers or both truth values, and differ.
func contradicts(a, b string) bool {
	var x, y any // of others nil
	_ = json.Unmarshal([]byte(strings.ToLower(a)), &x)
	_ = json.Unmarshal([]byte(strings.ToLower(b)), &y)
	return reflect.TypeOf(x) == reflect.TypeOf(y) && x != y
}
