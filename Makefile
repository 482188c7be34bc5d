# Needs Python 3.11, 3.12 or 3.13, make, and a C compiler for kernels. `make` alone says what there is to make.
#
# PYTHON  the Python that the environment is made from (default: the first of python3, python3.13, python3.12, python3.11 that fits)
# VENV    where the environment lies (default: .venv)
# RELAY_PYTHON  the Python that make venv-relay makes .venv-relay from (default: 3.10, else 3.8, on PATH or from pyenv)
# ARGS    more arguments for pytest, for example: make test ARGS="tests/unit -k links"

VENV ?= .venv
PYTHON ?=
ARGS ?=

BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready
TORCH := $(VENV)/.torch
ONNXRUNTIME := $(VENV)/.onnxruntime
PARQUET := $(VENV)/.parquet
RELAY_PYTHON ?=
RELAY := .venv-relay/.ready
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-deps

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The widgets' bundles, made again when something that they are made of has changed.
BUNDLES := workbench/notebook/static/built.json
BUNDLED := $(wildcard workbench/notebook/*.mjs workbench/notebook/*.css workbench/notebook/*/*.mjs workbench/notebook/*/*.css)

.PHONY: help venv lab demo test test-js torch test-torch onnxruntime test-onnxruntime parquet venv-relay test-relay lint format wheel bench clean

help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(BUNDLES) ## Set up the environment in .venv, or VENV, from requirements.lock

lab: $(BUNDLES) ## Open the workbench in JupyterLab
	$(BIN)/workbench lab

demo: $(READY) ## Do the whole job on a bundled model, with a small budget
	$(BIN)/workbench demo

test: $(BUNDLES) ## Run the tests
	$(BIN)/python -m pytest $(ARGS)

test-js: $(READY) ## Run the tests of the widgets' JavaScript
	$(BIN)/python hatch_build.py test

torch: $(TORCH) ## Install torch into the environment, for .pt2 archives

test-torch: $(TORCH) ## Run the tests that need torch
	$(BIN)/python -m pytest -m torch $(ARGS)

onnxruntime: $(ONNXRUNTIME) ## Install onnxruntime into the environment: what is applied is then compared with it too

test-onnxruntime: $(ONNXRUNTIME) ## Run the tests that need onnxruntime
	$(BIN)/python -m pytest -m onnxruntime $(ARGS)

parquet: $(PARQUET) ## Install pyarrow into the environment: trials can then be exported as Parquet

venv-relay: $(RELAY) ## Set up a Python with an old TVM in .venv-relay, for the relay engine

# The slow ones, which build whole networks to judge the matching, leave their results in tests/samples/old_tvm: ARGS="-m relay" runs them too.
test-relay: $(BUNDLES) $(RELAY) ## Run the tests of the relay engine on that Python
	WORKBENCH_RELAY_PYTHON=$(CURDIR)/.venv-relay/bin/python $(BIN)/python -m pytest -m "relay and not slow" $(ARGS)

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo

format: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

wheel: $(READY) ## Build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

bench: $(READY) ## Measure the benchmarks (some hours on an idle machine) and write docs/benchmarks.md
	$(BIN)/python benchmarks/lowering.py
	$(BIN)/python benchmarks/profiling.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/selective.py
	$(BIN)/python benchmarks/many_trials.py
	$(BIN)/python benchmarks/transfer.py
	$(BIN)/python benchmarks/ansor.py
	$(BIN)/python benchmarks/matching.py
	[ ! -x .venv-relay/bin/python ] || WORKBENCH_RELAY_PYTHON=$(CURDIR)/.venv-relay/bin/python $(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/ui_front.py
	$(BIN)/python benchmarks/ui_table.py
	$(BIN)/python benchmarks/ui_graph.py
	$(BIN)/python benchmarks/ui_monitor.py
	$(BIN)/python benchmarks/table.py

clean: ## Remove environments, caches and builds; sessions stay
	rm -rf .venv .venv-* build dist node_modules workbench/notebook/static .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find workbench tests -name __pycache__ -prune -exec rm -rf {} +

# Made anew when the lock changes, so that nothing stays behind from the old one.
$(LOCKED): requirements.lock
	@python='$(PYTHON)'; \
	fits() { "$$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }; \
	if [ -z "$$python" ]; then \
	  for name in python3 python3.13 python3.12 python3.11; do if fits $$name; then python=$$name; break; fi; done; \
	fi; \
	if [ -z "$$python" ] || ! fits "$$python"; then \
	  echo "The workbench needs Python 3.11, 3.12 or 3.13; $${python:-python3} is $$("$${python:-python3}" --version 2>&1 || true)." >&2; \
	  echo "Install one of them, or name it: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$($$python --version): 1.2 GB, some minutes the first time."; \
	"$$python" -m venv --clear $(VENV)
	$(PIP) -r requirements.lock
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(BUNDLES): $(BUNDLED) hatch_build.py package.json package-lock.json | $(READY)
	$(BIN)/python hatch_build.py
	@touch $@

# Not in the lock: large, and only .pt2 files need it. The lock bounds it, so it changes no other package.
$(TORCH): $(READY)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --constraint requirements.lock torch==2.13.0
	@touch $@

# Not in the lock: nothing needs it. Complete as the lock is; what else it needs (numpy, packaging, protobuf) is locked.
$(ONNXRUNTIME): $(READY)
	$(PIP) onnxruntime==1.32.0 flatbuffers==25.12.19
	@touch $@

# Not in the lock: only `workbench export --trials FILE.parquet` needs it. It needs no other package.
$(PARQUET): $(READY)
	$(PIP) pyarrow==26.0.1
	@touch $@

# The lock is that of 3.10; for 3.8, which lacks some of its versions, pip chooses within the bounds that this TVM needs.
$(RELAY): requirements-relay.lock
	@python='$(RELAY_PYTHON)'; \
	fits() { "$$1" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 8), (3, 10)))' 2>/dev/null; }; \
	if [ -z "$$python" ]; then \
	  for name in python3.10 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.10.*/bin/python python3.8 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.8.*/bin/python; do \
	    if fits "$$name"; then python=$$name; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ] || ! fits "$$python"; then \
	  echo "The old TVM needs Python 3.10 or 3.8: none was found. Name it: make venv-relay RELAY_PYTHON=/path/to/python3.10" >&2; \
	  exit 1; \
	fi; \
	echo "Setting up .venv-relay with $$($$python --version)."; \
	"$$python" -m venv --clear .venv-relay
	@pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-relay/bin/python -m pip install --quiet"; \
	if .venv-relay/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))'; then \
	  $$pip --no-deps -r requirements-relay.lock; \
	else \
	  $$pip --no-deps hhb-tvm==3.2.3 && $$pip numpy==1.23.5 onnx==1.14.0 protobuf==3.20.3 tflite tqdm decorator attrs psutil scipy tornado \
	    cloudpickle typing_extensions 'xgboost<2' synr ml_dtypes pytest pandas; \
	fi
	@touch $@
