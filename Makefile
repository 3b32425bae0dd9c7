# Everything here creates what it needs and does nothing when that is fresh.
SHELL := /bin/sh
VENV := .venv
RUN := $(VENV)/bin/python
SCENARIO ?= good
PEERS := .cache/bench-peers
DEVICE ?= cpu
REQUESTS ?= 50000
BASELINE ?= cpu
CANDIDATE ?= tpu-emulator
export TORCH_DEVICE_BACKEND_AUTOLOAD := 0
PACKAGES := wire server gateway ctl loadtest demo bench

.PHONY: help demo demo-all test test-tools bench-decisions bench-server soak check lint types imports unit lock clean-all
.DELETE_ON_ERROR:

help:
	@echo "make demo [SCENARIO=NAME]  a real canary on this machine, watched live; NAME is one of"
	@echo "                           good crash slow wrong recompile flap refuse"
	@echo "                           BASELINE, CANDIDATE: devices cpu, cuda, tpu, tpu-emulator"
	@echo "make demo-all              every scenario, one after the other, and a table of how they ended"
	@echo "make test                  all checks and tests that need only Python"
	@echo "make test-tools            tests that need Debian's tools (installs them as root)"
	@echo "make check                 lint, types, import contract, unit tests"
	@echo "make bench-decisions       the decision rule on simulated traffic, beside other tools' rules (ten minutes)"
	@echo "make bench-server          our inference server beside others (a quarter of an hour; QUICK=1 only tries it)"
	@echo "make soak [DEVICE=NAME]    50,000 mixed requests at the server, every answer checked (REQUESTS=N: so many)"
	@echo "make lock                  writes locks/*.txt from locks/*.in"
	@echo "make clean-all             removes everything that make created"

$(VENV)/.fresh: locks/dev.txt locks/weights.txt pyproject.toml scripts/install-venv
	@scripts/install-venv
	@touch $@

demo: $(VENV)/.fresh
	@$(RUN) -m demo --scenario $(SCENARIO) --baseline $(BASELINE) --candidate $(CANDIDATE)

demo-all: $(VENV)/.fresh
	@$(RUN) -m demo --scenario all --baseline $(BASELINE) --candidate $(CANDIDATE)

lint: $(VENV)/.fresh
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

types: $(VENV)/.fresh
	@$(VENV)/bin/mypy

imports: $(VENV)/.fresh
	@$(VENV)/bin/lint-imports --no-cache

unit: $(VENV)/.fresh
	@$(RUN) -m pytest -q tests/unit

check: lint types imports unit

test: lint types imports
	@$(RUN) tests/side_by_side.py

test-tools: $(VENV)/.fresh
	@scripts/install-tools
	@$(RUN) -m pytest -q tests/tools

bench-decisions: $(VENV)/.fresh
	@nice -n 19 $(RUN) -m bench.decisions

# LitServe and Mosec, in an environment of their own: torch and all else that dev.txt has comes from .venv.
$(PEERS)/.fresh: locks/bench.txt $(VENV)/.fresh
	@$(RUN) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r locks/bench.txt
	@touch $@

bench-server: $(PEERS)/.fresh
	@$(RUN) -m bench.server --peers $(PEERS) --out .cache/bench-server.json $(if $(QUICK),--quick)

soak: $(VENV)/.fresh
	@$(RUN) -m bench.soak --device $(DEVICE) --requests $(REQUESTS)

lock:
	@scripts/lock

clean-all:
	rm -rf $(VENV) .cache .tools demo-results dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
