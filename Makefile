# `make help` lists the targets. Everything lives in .venv and in the user's cache folder.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
FROM := v1.36.3
TO := v1.37.1
PYTEST := $(BIN)/pytest

.PHONY: help deps venv helm build lint unit contract e2e test demo demo-parts demo-kubernetes demo-helm demo-down bench bench-parts bench-prober bench-sidebyside bench-three bench-kept bench-wrong-api bench-recovery bench-checkpointer bench-guard reliability soak dist lock apis flags patches docs site clean bench-large bench-nodes bench-report screenshots conformance

help: ## Show this list.
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# --- what everything else needs -------------------------------------------------------------------------------------

deps: ## Install the Debian packages that are missing (needs root only if any are).
	@scripts/deps

venv: $(BIN)/.installed ## Make .venv with the locked dependencies and upgrader itself.

$(BIN)/.installed: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV)
	# uv installs the lock in seconds, where pip takes two minutes; only pip knows the indexes of a pip.conf.
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r <(sed -n '/^uv==/,/# via/p' requirements-dev.lock)
	$(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python --require-hashes -r requirements-dev.lock \
	  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	# No build isolation: the build backend is in the lock as well, so nothing unlocked is ever fetched.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

helm: $(BIN)/helm ## Build Helm once for this machine, and link it into .venv.

$(BIN)/helm: | $(BIN)/.installed
	@echo "Helm: from the cache, or built from its Go module (3 minutes)"
	ln -sf "$$($(BIN)/python -c 'from upgrader.lab.binaries import Binaries; from upgrader.lab.progress_port import Silent; print(Binaries(Silent()).helm())')" $@

build: deps $(BIN)/helm ## Build and cache what a lab is made of, from source (once for a machine).
	@$(BIN)/upgrader lab build --from source --kubernetes $(FROM) --kubernetes $(TO)

# --- tests ----------------------------------------------------------------------------------------------------------

lint: venv $(BIN)/helm ## Every linter.
	@scripts/lint

unit: venv $(BIN)/helm ## Unit and chart tests, and how much of the code they run: no cluster, no network.
	@$(BIN)/python -m pytest -p tests.unit_coverage tests/unit tests/charts

contract: build ## Adapters against the real thing, and fakes against the same contract.
	@$(PYTEST) tests/contract

e2e: build ## Everything on real local clusters (root).
	@$(PYTEST) tests/e2e

test: ## All of it: linters, unit, contract and end-to-end tests.
	@scripts/test

# --- to look at it --------------------------------------------------------------------------------------------------

demo: ## Upgrade a real one-controller cluster under load, and print what happened (RECORD=1: also its recording anew).
	@$(PYTHON) -m bench.demo.what_comes $(FROM) $(TO) || :
	$(MAKE) --no-print-directory deps venv
	$(BIN)/python -m bench.demo --from $(FROM) --to $(TO) $(if $(RECORD),--record bench/demo/recording.jsonl)

# Its own release of Kubernetes, if that can be downloaded; Helm is compiled meanwhile (make -j2), if there is none.
demo-parts: demo-helm demo-kubernetes

demo-kubernetes: | $(BIN)/.installed
	@$(BIN)/upgrader lab build --kubernetes $(FROM) --kubernetes $(TO)

demo-helm: | $(BIN)/.installed
	@command -v helm >/dev/null || $(MAKE) --no-print-directory helm

demo-down: ## Remove the demo's cluster.
	@$(BIN)/upgrader lab down --name demo

bench: bench-parts bench-prober bench-sidebyside ## The three next ones, one after the other (three hours).

bench-parts: build ## Print how long each part takes, as a table and as JSON.
	@$(BIN)/python -m bench.parts

bench-prober: build ## Measure what the availability prober costs; writes docs/benchmarks/prober.md.
	@$(BIN)/python -m bench.prober

bench-sidebyside: build ## Upgrades by kubeadm, by Helm alone and by upgrader; writes docs/benchmarks/zero-outage.md (REPEAT=5, CONTROLLERS=1).
	@$(BIN)/python -m bench.sidebyside --repeat $(or $(REPEAT),5) --controllers $(or $(CONTROLLERS),1)

bench-three: build ## Three controllers under load, one of them without power in the end; writes docs/benchmarks/three-controllers.md
	@$(BIN)/python -m bench.three

bench-kept: build ## Replace kube-apiserver under kept connections; writes docs/benchmarks/kept-connections.md (ROLLS=10, CONTROLLERS=1, BESIDE=all).
	@$(BIN)/python -m bench.kept_connections --rolls $(or $(ROLLS),10) --controllers $(or $(CONTROLLERS),1) --beside $(or $(BESIDE),all)

bench-wrong-api: build ## Make the control plane wrong in every known way, and record it; `make docs` makes the page (an hour and a half).
	@$(BIN)/python -m bench.wrong_api

bench-recovery: build ## Print how long the API is unreachable, by cause (REPEAT=3), and after power cuts in upgrades (CUTS=10).
	@$(BIN)/python -m bench.recovery --repeat $(or $(REPEAT),3) --cuts $(or $(CUTS),10)

bench-checkpointer: build ## Print what the pod-checkpointer costs a controller on which nothing happens.
	@$(BIN)/python -m bench.checkpointer

bench-guard: build ## Measure how long guard makes others wait, on one etcd and API server; writes docs/benchmarks/guard.md (ten minutes).
	@$(BIN)/python -m bench.guard

bench-report: venv ## Print how long reports take, by the size of the journal.
	@$(BIN)/python -m bench.report

bench-large: build ## Measure `check` on 5,000 nodes and 100,000 pods; writes docs/benchmarks/large.md (the cluster takes 15 GiB of memory).
	@$(BIN)/python -m bench.large

bench-nodes: build ## Measure `run` on 1,000 nodes whose kubelets kwok plays; writes docs/benchmarks/large.md
	@$(BIN)/python -m bench.large.nodes

conformance: build ## Run Kubernetes' own tests during, after and around an upgrade; writes docs/conformance.md (WAYS="during after around", SPECS=REGEX, PROCS=4, MINUTES=N; hours).
	@$(BIN)/python -m bench.conformance $(WAYS) --from $(FROM) --to $(TO) --focus '$(SPECS)' --procs $(or $(PROCS),4) $(if $(MINUTES),--minutes $(MINUTES))

reliability: build ## Let runs meet each fault at each moment and in each step; writes the tables of docs/reliability.md (two hours).
	@$(BIN)/python -m bench.reliability

soak: build ## What takes hours, by parts: docs/soak.md names them (PART=guard, or several, or one test file: PART=guard/guard_pages; ROUNDS=10, CONTROLLERS=1).
	@ROUNDS='$(ROUNDS)' CONTROLLERS='$(CONTROLLERS)' $(BIN)/python -m scripts.soak $(PART)

# --- to install it elsewhere ----------------------------------------------------------------------------------------

dist: deps $(BIN)/helm ## Make what people install, in dist/: wheels, charts, images, checksums (root; ten minutes at first). REGISTRY=HOST/PATH: charts name the image there.
	@$(BIN)/python -m release dist $(REGISTRY)

# --- maintenance ----------------------------------------------------------------------------------------------------

lock: venv ## Update the pinned dependencies in the lock files.
	@lock() { $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url "$$@"; }
	lock pyproject.toml -o requirements.lock
	lock pyproject.toml --group dev -c requirements.lock -c lab/images/pod-checkpointer/requirements.txt -c lab/images/guard/requirements.txt -o requirements-dev.lock
	lock --no-annotate lab/go-toolchain.in -o lab/go-toolchain.txt

apis: venv ## Update the table of Kubernetes' APIs that `removed-apis` checks by (TO names the newest version; 10 s).
	@$(BIN)/python -m scripts.api_lifecycle $(TO) > $(BIN)/.apis
	mv $(BIN)/.apis upgrader/model/api_lifecycle.json

flags: venv ## Update the table of flags and feature gates that `flags` checks by (FROM and TO name the newest versions; two minutes).
	@$(BIN)/python -m scripts.flag_lifecycle $(FROM) $(TO) > $(BIN)/.flags
	mv $(BIN)/.flags upgrader/preflight/flag_lifecycle.json

patches: venv ## Update the table of the newest patches that an upgrade over several minors goes through (10 s).
	@$(BIN)/python -m scripts.newest_patches > $(BIN)/.patches
	mv $(BIN)/.patches upgrader/model/newest_patches.json

site: venv ## Make the documentation as a site with search, in build/site.
	@$(BIN)/python -m scripts.docs_site

docs: venv ## Make the reference pages from the code.
	@$(BIN)/python -m upgrader.config.reference_page > docs/reference/upgrader-yaml.md
	$(BIN)/python -m upgrader.config.yaml_schema > docs/reference/upgrader-yaml.schema.json
	$(BIN)/python -m upgrader.config.yaml_schema fleet.yaml > docs/reference/fleet-yaml.schema.json
	$(BIN)/python -m upgrader.config.yaml_schema fleet-inventory.yaml > docs/reference/fleet-inventory-yaml.schema.json
	$(BIN)/python -m upgrader.engine.journal.json_schema > docs/reference/journal.schema.json
	$(BIN)/python -m upgrader.engine.state.report > docs/reference/report.schema.json
	$(BIN)/python -m upgrader.cli.ui.plan_json > docs/reference/plan.schema.json
	$(BIN)/python -m upgrader.app.event_lines > docs/reference/events.schema.json
	$(BIN)/python scripts/cli_reference.py > docs/reference/cli.md
	$(BIN)/python scripts/checks_reference.py > docs/reference/checks.md
	$(BIN)/python -m scripts.codes_reference > docs/reference/codes.md
	$(BIN)/python -m tests.unit.screens.page > docs/reference/failures.md
	$(BIN)/python -m scripts.soak --page > docs/soak.md
	$(BIN)/python -m scripts.others_at_work
	$(BIN)/python scripts/chart_readme.py
	$(BIN)/python -m scripts.layers_figure
	$(BIN)/python -m bench.kinds
	$(BIN)/python -m bench.wrong_api --page
	$(BIN)/python -m bench.rehearsal --page

screenshots: venv ## Make the pictures of docs/reports.md from example runs (needs chromium).
	@$(BIN)/python -m scripts.screenshots docs/reports

clean: ## Remove .venv and the tools' caches (labs and the user's cache folder stay).
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
