# Spate. Only Go (1.26 or later) and make are needed. Targets build the tools that they use into .bin/.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Versions of the tools. After a change of a version the tool is rebuilt.
BUF_VERSION                := v1.73.0
PROTOC_GEN_GO_VERSION      := v1.36.12
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2
GOLANGCI_LINT_VERSION      := v2.15.0
GOTESTSUM_VERSION          := v1.13.0
INFLUXD_VERSION            := v1.8.10
INFLUXD2_VERSION           := v2.7.12
HELM_VERSION               := v3.22.0
KUBECTL_VALIDATE_VERSION   := v0.0.4
COMPOSE_GO_VERSION         := v2.16.2
CERT_MANAGER_VERSION       := v1.18.2
GORELEASER_VERSION         := v2.15.2
CYCLONEDX_VERSION          := v1.10.0

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME  ?= 10s
# Settings of make torture: number of runs, seed of the first run, number of concurrent runs, a pattern that selects
# scripts, and the file for the summary.
N         ?= 100
SEED      ?= 1
AT_ONCE   ?= 2
ONLY      ?=
SUMMARY   ?= $(CURDIR)/$(TMP)/torture.jsonl
TESTFLAGS ?=

# Programs, tests, lint and tools that load packages all use these settings, so that one build cache serves them, in any
# folder. Only the race detector needs C. gRPC's traces would link html/template, which keeps every method of every type.
export GOFLAGS     := -trimpath -tags=grpcnotrace
export CGO_ENABLED := 0

# Packages that make test leaves to other parts: tests against other projects' servers, of faults of machines and
# networks, which take minutes, and of an engine.
DATABASES := e2e/databases
FAULTS    := e2e/failures e2e/regions e2e/torture internal/netlab agent/yielding
ENGINES   := e2e/engine
# Packages with tests against servers; make test skips those tests.
SERVER_TESTS := ./aggregate/sink/influx ./deployments/grafana/internal/boards ./e2e/databases

comma := ,
space := $() $()
BIN := .bin
TMP := .bin/tmp

# retry runs a command up to three times, because networks time out.
retry = for try in 1 2 3; do if $(1); then break; elif [ $$try = 3 ]; then exit 1; else echo "Once more in 5 s (try $$try of 3 failed)." >&2; sleep 5; fi; done

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: bin/spate ## Build and run the quickstart plan: a whole load test on this machine.
	bin/spate run plans/quickstart.yaml --fail-on never # a busy machine may spoil a measurement, which must not fail make

.PHONY: build
build: bin/spate bin/spate-coordinator bin/spate-agent ## Build the programs into bin/.

# count_packages shows how far go build -v is. Lines with blanks are errors.
count_packages = { n=0; while IFS= read -r line; do case "$$line" in (*' '*|*:*) echo "$$line";; \
	(*) n=$$((n + 1)); [ $$((n % 50)) != 0 ] || echo "  $$n packages of 700";; esac; done; } >&2

# Go knows what is up to date, so these targets always run go build.
.PHONY: bin/spate bin/spate-coordinator bin/spate-agent
bin/spate:             PACKAGE := ./cmd/spate
bin/spate-coordinator: PACKAGE := ./cmd/coordinator
bin/spate-agent:       PACKAGE := ./cmd/agent
bin/spate bin/spate-coordinator bin/spate-agent:
	@$(call retry,go list -deps $(PACKAGE) >/dev/null)
	@echo 'Building $@: up to 3 minutes on 2 cores, seconds if most is built.' >&2
	@go build -v -ldflags '-s -w -X main.version=$(VERSION)' -o $@ $(PACKAGE) 2>&1 | $(count_packages)

.PHONY: cross
cross: ## Check that the programs compile for macOS and Windows too.
	@$(call retry,GOOS=darwin go list -deps ./cmd/... >/dev/null && GOOS=windows go list -deps ./cmd/... >/dev/null)
	go run ./internal/crosscheck darwin/arm64 windows/amd64

# run_tests runs go test with flags and packages, and prints packages as they end, then what was skipped and what failed. A
# test that fails is repeated once: if it passes then, it is named as flaky, which is a bug too.
run_tests = @mkdir -p $(TMP) && rm -f $(TMP)/flaky && $(BIN)/gotestsum --format pkgname-and-test-fails \
	--format-hide-empty-pkg --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-report=$(TMP)/flaky \
	--packages="$(2)" -- $(1) $(TESTFLAGS); \
	if [ -s $(TMP)/flaky ]; then sed 's/^/FLAKY (failed once, passed when repeated): /' $(TMP)/flaky | tee -a $(TMP)/flaky-all; fi

LOCAL := $$(go list ./... | grep -vE '/($(subst $(space),|,$(DATABASES) $(FAULTS) $(ENGINES)))$$')

.PHONY: test
test: $(BIN)/gotestsum programs ## Test all of Spate on this machine. Needs Go; 5 minutes, 10 the first time.
	@$(call retry,go list -deps -test ./... >/dev/null)
	$(call run_tests,-vet=off -timeout 10m,$(LOCAL))

# The three programs are linked once for all tests that run them; internal/process finds them there.
.PHONY: programs
programs:
	@$(call retry,go list -deps ./cmd/... >/dev/null)
	@mkdir -p $(TMP)/programs
	CGO_ENABLED=0 go build -buildvcs=false -ldflags '-s -w' -o $(TMP)/programs/ ./cmd/...

# What a damaged Parquet file makes its reader do is a panic, which is caught, but for -race's check of pointers a fault.
.PHONY: test-race
test-race: $(BIN)/gotestsum programs ## The same tests with the race detector. Needs a C compiler; 15 minutes.
	@go build -race -o /dev/null ./histogram || { echo 'NO RACE DETECTOR: a C compiler is needed (Debian: gcc libc6-dev).' >&2; exit 1; }
	$(call run_tests,-race -gcflags='github.com/parquet-go/...=-d=checkptr=0' -vet=off -timeout 20m,$(LOCAL))
test-race: export CGO_ENABLED := 1

.PHONY: test-databases
test-databases: $(BIN)/gotestsum $(BIN)/influxd $(BIN)/victoria-metrics $(BIN)/prometheus $(BIN)/otelcol programs ## Tests against real databases, which are built the first time in half an hour; 3 minutes.
	$(call run_tests,-vet=off -count=1 -p 1 -timeout 20m,$(SERVER_TESTS))
test-databases: export SPATE_TEST_SERVERS := influxd,victoria-metrics,prometheus,otelcol

.PHONY: test-influx
test-influx: $(BIN)/gotestsum $(BIN)/influxd programs ## Those that need only InfluxDB 1.8, which is built the first time in 3 minutes; 2 minutes.
	$(call run_tests,-vet=off -count=1 -p 1 -timeout 20m,$(SERVER_TESTS))
test-influx: export SPATE_TEST_SERVERS := influxd

.PHONY: test-influx2
test-influx2: $(BIN)/gotestsum $(BIN)/influxd2 programs ## The same tests against InfluxDB 2.7, which is built the first time in 10 minutes with Rust; 3 minutes.
	$(call run_tests,-vet=off -count=1 -p 1 -timeout 20m,$(SERVER_TESTS))
test-influx2: export SPATE_TEST_SERVERS := influxd2

.PHONY: test-faults
test-faults: $(BIN)/gotestsum programs ## Tests that kill programs, and cut and slow networks of hosts. Needs root, /dev/net/tun and sshd; 5 minutes.
	$(call run_tests,-vet=off -count=1 -p 1 -timeout 20m,$(FAULTS:%=./%))
test-faults: export SPATE_REQUIRE_NETNS := 1

.PHONY: test-all
test-all: ## Every part, one after another, before a release. ENGINE=URL adds test-engine. An hour.
	$(MAKE) test test-race lock-order test-databases test-influx2 test-faults test-page test-peers check-deployments
	@$(if $(ENGINE),$(MAKE) test-engine,echo 'NO REAL ENGINE: test-engine did not run; give ENGINE=http://127.0.0.1:8000.' >&2)

.PHONY: lock-order
lock-order: ## Test that mutexes are always locked in one order: 1 minute.
	.ci/lock-order

# A vLLM on loopback that nobody else uses, and the ID of the token that ends its outputs (0: do not test natural ends).
ENGINE  ?=
EOS     ?= 0
ENGINES_STREAMS ?= 1 4 16

.PHONY: test-engine
test-engine: ## Compare Spate's numbers with a real engine's own histograms: ENGINE=http://127.0.0.1:8000.
	@test -n '$(ENGINE)' || { echo 'Give the base URL of a vLLM on loopback: make test-engine ENGINE=http://127.0.0.1:8000' >&2; exit 2; }
	go test ./e2e/engine -count 1 -timeout 60m -v -args -engine.url '$(ENGINE)' -engine.eos '$(EOS)' -engine.streams '$(ENGINES_STREAMS)'

.PHONY: influx-outage
influx-outage: $(BIN)/influxd ## Run while InfluxDB is stopped or killed for OUTAGE (60s), and compare the send delays: 7 minutes.
	SPATE_TEST_OUTAGE=$(or $(OUTAGE),60s) go test ./e2e/databases -count=1 -timeout 60m -v -run 'TestInfluxDBAwayForSomeTime|TestPointsOutliveTheirCoordinator' -p 1 -parallel 1

.PHONY: torture
torture: ## Run the real programs under random faults: N=100 runs from SEED=1 on. A seed always has the same faults.
	@mkdir -p $(dir $(SUMMARY)) && rm -f $(SUMMARY)
	go test ./e2e/torture -run '^TestTorture$$' -count 1 -timeout 0 -parallel $(AT_ONCE) -v -args -torture.n=$(N) -torture.seed=$(SEED) \
		-torture.only='$(ONLY)' -torture.summary=$(SUMMARY) | grep --line-buffered -v '^=== '

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/buf .buf/buf/validate/validate.proto ## Check style of Go and proto, and that the protocol stays compatible.
	@big=$$(git ls-files -z | xargs -0 stat -c '%s %n' | awk '$$1 > 1048576'); test -z "$$big" || { echo "Tracked files above 1 MiB: a program, by mistake?"; echo "$$big"; exit 1; }
	docs/words/check.sh
	$(BIN)/golangci-lint run --allow-parallel-runners ./...
	@links=$$(go list -deps ./cmd/agent | { grep -E 'spate/(aggregate|coordinator/?$$|report)|/cel-go' || true; }); test -z "$$links" || { echo "spate-agent must not link these:"; echo "$$links"; exit 1; }
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/buf breaking proto --against proto/baseline.binpb

.PHONY: fmt
fmt: $(BIN)/golangci-lint $(BIN)/buf ## Format Go and proto.
	$(BIN)/golangci-lint fmt
	$(BIN)/buf format --write proto

# plan_schema writes the JSON Schema of plans and the catalogues of package measure. Both have the comments of the proto
# files, extracted by buf.
define plan_schema
	@mkdir -p $(TMP)
	$(BIN)/buf build proto --output $(TMP)/plan.binpb
	go run ./plans/internal/generate $(1) $(2) <$(TMP)/plan.binpb
endef

# dashboards writes the Grafana dashboards into two folders of a folder.
GRAFANA := deployments/grafana
DASHBOARDS := dashboards dashboards-prometheus
dashboards = go run ./deployments/grafana/internal/boards $(1)

.PHONY: generate
generate: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc .buf/buf/validate/validate.proto ## Generate Go and the plans' JSON Schema from proto, and the Grafana dashboards.
	$(BIN)/buf generate
	$(call plan_schema,plans/plan.schema.json,measure/counters.go)
	$(call dashboards,$(GRAFANA))

.PHONY: check-generated
check-generated: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc .buf/buf/validate/validate.proto ## Check that the generated code is current.
	@rm -rf $(TMP)/generated
	$(BIN)/buf generate --output $(TMP)/generated
	@diff --recursive --brief --exclude '*.proto' --exclude '*.binpb' --exclude validateproto proto $(TMP)/generated/proto \
		|| { echo 'The generated code is not current: make generate' >&2; exit 1; }
	$(call plan_schema,$(TMP)/generated/plan.schema.json,$(TMP)/generated/counters.go)
	@diff --brief plans/plan.schema.json $(TMP)/generated/plan.schema.json && diff --brief measure/counters.go $(TMP)/generated/counters.go \
		|| { echo 'The plans'"'"' JSON Schema or the counters are not current: make generate' >&2; exit 1; }
	$(call dashboards,$(TMP)/generated/grafana)
	@(for folder in $(DASHBOARDS); do \
		diff --recursive --brief $(GRAFANA)/$$folder $(TMP)/generated/grafana/$$folder || exit 1; done) \
		|| { echo 'The Grafana dashboards are not current: make generate' >&2; exit 1; }

# What no baseline may change: the numbers of removed fields stay reserved, for older programs and ledgers have them.
KEPT_NUMBERS := {"version":"v2","modules":[{"path":"proto"},{"path":".buf"}],"breaking":{"use":[\
	"FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED","ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",\
	"RESERVED_MESSAGE_NO_DELETE","RESERVED_ENUM_NO_DELETE"]}}

# The protocol as of the last release. `make lint` refuses changes that would break agents, coordinators and ledgers of
# that release. Update the baseline at a release, and never to silence the check.
.PHONY: proto-baseline
proto-baseline: $(BIN)/buf .buf/buf/validate/validate.proto ## At a release: make the protocol the one that later changes must be compatible with.
	$(BIN)/buf breaking proto --against proto/baseline.binpb --config '$(KEPT_NUMBERS)'
	$(BIN)/buf build proto --exclude-source-info --output proto/baseline.binpb

.buf/buf/validate/validate.proto: $(wildcard proto/validateproto/*)
	@mkdir -p $(@D)
	@$(call retry,go -C proto/validateproto run . >$@.new)
	@mv $@.new $@

.PHONY: bench
bench: $(BIN)/influxd ## Run all benchmarks.
	go test -run '^$$' -bench . -benchmem -p 1 $(TESTFLAGS) ./...

.PHONY: bench-all
bench-all: build ## Run all scripts of bench/: a table of figures beside this machine's floors. ROUNDS=1 for a first look.
	bench/all.sh $(ROUNDS)

# Comparison with other load generators, on Linux: STREAMS, SHAPES (published has its own 1,000 streams), ROUNDS, TOOLS
# (default: all that are installed), TIMEOUT of a run.
STREAMS ?= 1 100 500 1000 4000
SHAPES  ?= ticks spread published
ROUNDS  ?= 3
TOOLS   ?=
TIMEOUT ?= 60s

.PHONY: bench-peers
bench-peers: bin/spate ## Compare Spate with other load generators: the same load from the same server. Their environments: make peers-env.
	go -C bench/peers build -o $(CURDIR)/bin/peers .
	taskset -c 1 bin/peers -spate bin/spate -home bench/peers -out bench/peers/out -streams '$(STREAMS)' -shapes '$(SHAPES)' \
		-rounds $(ROUNDS) -tools '$(TOOLS)' -timeout $(TIMEOUT)

.PHONY: peers-env
peers-env: ## Install the other load generators of TOOLS (default: all) into bench/peers/.env/. Needs Python 3.12, PyPI and 8 GB.
	bench/peers/install.sh $(TOOLS)

.PHONY: test-peers
test-peers: ## Test the comparison's own program: how it reads results, the truth and processes.
	go -C bench/peers vet ./...
	go -C bench/peers test ./...

.PHONY: fuzz
fuzz: ## Run each fuzzer for FUZZTIME (10s).
	@grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sort | while IFS=: read -r file fuzzer; do \
		go test -run '^$$' -fuzz "^$${fuzzer#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")" </dev/null; \
	done

# The pictures also need node, npm and Chromium; see deployments/grafana/pictures.
PICTURES := deployments/grafana/pictures
$(PICTURES)/node_modules: $(PICTURES)/package-lock.json
	cd $(PICTURES) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: terminal-pictures
terminal-pictures: build ## Draw the pictures of the full screen into docs/images. Needs tmux, Python 3 and Chromium.
	docs/site/terminal.sh

.PHONY: dashboard-pictures
dashboard-pictures: build $(BIN)/influxd $(PICTURES)/node_modules check-dashboards ## Draw the Grafana dashboards over real runs into docs/images: five minutes.
	node $(PICTURES)/fill.mjs . $(TMP)/pictures
	node $(PICTURES)/draw.mjs . $(TMP)/pictures docs/images

.PHONY: check-dashboards
check-dashboards: $(PICTURES)/node_modules ## Check the Grafana dashboards against Grafana's own types, by node.
	for folder in $(DASHBOARDS); do node $(PICTURES)/check.mjs $(GRAFANA)/$$folder || exit 1; done
	$(PICTURES)/node_modules/.bin/tsc -p $(PICTURES)

# The check of pages needs node 18 or later, npm and Chromium. Its pages are those of two short simulated runs and a comparison.
# A run that a busy machine leaves incomplete (3) has a page too.
PAGE := report/page/check
$(PAGE)/node_modules: $(PAGE)/package-lock.json
	cd $(PAGE) && $(call retry,npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	@touch $@

.PHONY: test-page
test-page: bin/spate $(PAGE)/node_modules ## Check report.html, a comparison and a coordinator's pages by axe in headless Chromium; check openapi.yaml.
	node $(PAGE)/openapi.mjs web/openapi.yaml
	@rm -rf $(TMP)/page
	bin/spate run plans/slo-search.yaml --simulate=10 --set loads[0].search.probes=8 --fail-on never --out $(TMP)/page/search || [ $$? = 3 ]
	bin/spate run plans/ramp.yaml --simulate=20 --fail-on never --out $(TMP)/page/ramp || [ $$? = 3 ]
	bin/spate compare $(TMP)/page/search $(TMP)/page/search --allow-invalid --format html >$(TMP)/page/search/compare.html
	bin/spate figure $(TMP)/page/search card --format png >$(TMP)/page/card.png
	bin/spate figure $(TMP)/page/search pareto --format pdf >$(TMP)/page/pareto.pdf
	cd $(PAGE) && node_modules/.bin/html-validate $(CURDIR)/$(TMP)/page/*/*.html
	node $(PAGE)/check.mjs $(TMP)/page/*/*.html
	node $(PAGE)/live.mjs bin/spate $(TMP)/page/live

.PHONY: check-deployments
check-deployments: $(BIN)/helm $(BIN)/kubectl-validate $(BIN)/compose-go $(BIN)/promtool ## Check chart, compose file, units and alert rules with Helm, Kubernetes' schemas, Compose's model, systemd and promtool.
	deployments/check.sh $(BIN) $(CERT_MANAGER_VERSION)

# The site of docs/ needs Python 3 with venv, and PyPI.
SITE := $(BIN)/site
$(SITE)/bin/mkdocs: docs/site/requirements.txt
	python3 -m venv $(SITE)
	@$(call retry,$(SITE)/bin/pip install --quiet --disable-pip-version-check -r $<)
	@touch $@

.PHONY: site
site: $(SITE)/bin/mkdocs ## Build the site of docs/ into .bin/tmp/site, and check its links.
	$(SITE)/bin/mkdocs build --quiet --strict --site-dir $(CURDIR)/$(TMP)/site

.PHONY: check-release
check-release: $(BIN)/goreleaser $(BIN)/cyclonedx-gomod ## Make a release in dist/ without publishing it, and check what is in it.
	deployments/release/check.sh $(BIN)

.PHONY: tools
tools: $(BIN)/influxd $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc $(BIN)/golangci-lint ## Build the tools of .ci/run into .bin/.

# tool makes the rule for a tool: name, package, version, build flags. The stamp file's name contains the version. An
# existing program of that version is not rebuilt.
define tool
$(BIN)/$(1): $(BIN)/.$(1)@$(3) ;
$(BIN)/.$(1)@$(3):
	@mkdir -p $(BIN)
	@if ! go version -m $(BIN)/$(1) 2>/dev/null | grep '	$(3)	' >/dev/null; then \
		echo 'Building $(1) $(3) into .bin/: this can take minutes, once.' >&2; \
		$$(call retry,GOBIN=$(CURDIR)/$(BIN) go install $(4) $(2)@$(3)); \
	fi
	@rm -f $(BIN)/.$(1)@* && touch $$@
endef
$(eval $(call tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go,$(PROTOC_GEN_GO_VERSION)))
$(eval $(call tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC_VERSION)))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION)))
$(eval $(call tool,gotestsum,gotest.tools/gotestsum,$(GOTESTSUM_VERSION)))
# Without the tags it refuses unsigned integers. Later versions cannot be built with Go alone.
$(eval $(call tool,influxd,github.com/influxdata/influxdb/cmd/influxd,$(INFLUXD_VERSION),-tags uint$$(comma)uint64))

# buf has a separate rule, because its build takes 4 minutes of CPU: npm has it for Linux and macOS. Without npm, Go
# builds it.
$(BIN)/buf: $(BIN)/.buf@$(BUF_VERSION) ;
$(BIN)/.buf@$(BUF_VERSION):
	@mkdir -p $(BIN) $(TMP)/buf
	@if command -v npm >/dev/null; then \
		$(call retry,npm install --silent --no-save --prefix $(TMP)/buf @bufbuild/buf@$(BUF_VERSION:v%=%)); \
		mv $(TMP)/buf/node_modules/@bufbuild/buf-*/bin/buf $(BIN)/buf; \
	else \
		echo 'Building buf $(BUF_VERSION) into .bin/: this can take minutes, once.' >&2; \
		$(call retry,GOBIN=$(CURDIR)/$(BIN) go install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)); \
	fi
	@$(BIN)/buf --version >/dev/null
	@rm -rf $(TMP)/buf $(BIN)/.buf@* && touch $@

# InfluxDB 2 has a separate rule, because it needs Rust besides Go. The stamp file's name contains the version.
$(BIN)/influxd2: $(BIN)/.influxd2@$(INFLUXD2_VERSION) ;
$(BIN)/.influxd2@$(INFLUXD2_VERSION): internal/servertest/influx/build.sh
	@echo 'Building InfluxDB $(INFLUXD2_VERSION) into .bin/: about 10 minutes, once.' >&2
	@mkdir -p $(TMP)
	internal/servertest/influx/build.sh $(INFLUXD2_VERSION) $(CURDIR)/$(TMP)/influxdb2 $(CURDIR)/$(BIN)/influxd2
	@rm -rf $(TMP)/influxdb2 $(BIN)/.influxd2@* && touch $@

$(eval $(call tool,goreleaser,github.com/goreleaser/goreleaser/v2,$(GORELEASER_VERSION)))
$(eval $(call tool,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod,$(CYCLONEDX_VERSION)))
$(eval $(call tool,helm,helm.sh/helm/v3/cmd/helm,$(HELM_VERSION)))
$(eval $(call tool,kubectl-validate,sigs.k8s.io/kubectl-validate,$(KUBECTL_VALIDATE_VERSION)))

# compose-go has a separate rule, because its program is called cmd.
$(BIN)/compose-go: $(BIN)/.compose-go@$(COMPOSE_GO_VERSION) ;
$(BIN)/.compose-go@$(COMPOSE_GO_VERSION):
	@mkdir -p $(TMP)
	@$(call retry,CGO_ENABLED=0 GOFLAGS= GOBIN=$(CURDIR)/$(TMP) go install github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE_GO_VERSION))
	@mv $(TMP)/cmd $(BIN)/compose-go
	@rm -f $(BIN)/.compose-go@* && touch $@

# server makes the rule for a server of tests that is built by a module of its own, because it can only be built as a
# module that another one requires, or is made of several: name, name for people, folder, package, build flags. The stamp
# file's name has the folder's hash.
define server
$(BIN)/$(1): $(BIN)/.$(1)@$(shell cat $(3)/go.mod $(wildcard $(3)/*.go) | sha256sum | cut -c 1-12) ;
$(BIN)/.$(1)@%:
	@mkdir -p $(BIN)
	@echo 'Building $(2) into .bin/: this can take minutes, once.' >&2
	@$$(call retry,CGO_ENABLED=0 GOFLAGS= go -C $(3) build -trimpath -ldflags '-s -w' $(5) -o $(CURDIR)/$(BIN)/$(1) $(4))
	@rm -f $(BIN)/.$(1)@* && touch $$@
endef
$(eval $(call server,victoria-metrics,VictoriaMetrics,internal/servertest/victoria,github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics))
# Without the tag it has the discovery of targets in all clouds, which takes most of its build.
$(eval $(call server,prometheus,Prometheus,internal/servertest/prometheus,github.com/prometheus/prometheus/cmd/prometheus,-tags remove_all_sd))
$(eval $(call server,promtool,promtool,internal/servertest/prometheus,github.com/prometheus/prometheus/cmd/promtool,-tags remove_all_sd))

$(eval $(call server,otelcol,an OpenTelemetry collector,internal/servertest/collector,.))

.PHONY: clean
clean: ## Remove what was built, but not the tools.
	rm -rf bin dist .buf $(TMP)
	go clean -testcache
