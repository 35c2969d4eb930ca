package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The settings that engines print and answer are read, the last word first. What contradicts the command is told.
func TestAccount(t *testing.T) {
	const before = "(APIServer) INFO non-default args: {'max_num_seqs': 99}\n"
	vllm := before + `(APIServer pid=1) INFO 11-29 [api_utils.py:286] non-default args: {'model_tag': 'model', 'port': 38009, 'max_model_len': 8192, 'served_model_name': ['tiny'], 'api_key': ['sk-1'], 'max_num_seqs': 4, 'enable_prefix_caching': False}
(EngineCore pid=2) INFO 11-29 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='model', dtype=torch.bfloat16, enable_prefix_caching=True, ` + "enable_chunked_prefill=False, compilation_config={'mode': <CompilationMode.NONE: 0>, 'custom_ops': ['all']}\n"
	metrics := "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"128\",kv_cache_size_tokens=\"1048576\"} 1.0\nother{a=\"b\"} 2\n"
	sglang := before + "[2026] server_args=ServerArgs(model_path='m', tp_size=2, api_key='sk-1', mem_fraction_static=0.88, chunked_prefill_size=-1)\n"
	for _, c := range []struct {
		name, log, answer string
		command, want     []string
	}{
		{"vLLM", vllm, metrics, []string{"vllm", "serve", "m", "--max-num-seqs", "8", "--enable-chunked-prefill", "--dtype=auto", "--api-key", "k"},
			[]string{"Settings, as the engine says: dtype torch.bfloat16, enable_chunked_prefill False, enable_prefix_caching True, kv_cache_size_tokens 1048576, max_num_seqs 4.",
				"The command sets enable_chunked_prefill to true, the engine says False.", "The command sets max_num_seqs to 8, the engine says 4."}},
		{"vLLM, as asked", vllm, "", []string{"serve", "--max-num-seqs=4", "--no-enable-chunked-prefill", "--max-model-len", "8k"},
			[]string{"Settings, as the engine says: dtype torch.bfloat16, enable_chunked_prefill False, enable_prefix_caching True, max_model_len 8192, max_num_seqs 4."}},
		{"SGLang", sglang, "", []string{"--tp-size", "2"},
			[]string{"Settings, as the engine says: chunked_prefill_size -1, mem_fraction_static 0.88, tp_size 2."}},
		{"llama.cpp", before, `{"default_generation_settings":{"n_ctx": 4096,"params":{"seed":1}},"total_slots":4}`, nil,
			[]string{"Settings, as the engine says: n_ctx 4096, total_slots 4."}},
		{"none", before, "", nil, nil},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		e := &Engine{log: log, begin: int64(len(before))}
		if got := e.Settings(c.command, []byte(c.answer)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
