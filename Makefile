# Every command that a contributor needs. PYTHON selects the interpreter; each has its own environment:
#   make test PYTHON=python3.13
PYTHON ?= python3
PROFILE ?= release
# dev builds in half the time of release. pgo is what releases are: the compiler learns from a load (release/training.py).
BUILD_dev := --profile dev
BUILD_release := --release
BUILD_pgo := --release --pgo
# How many processes run tests at once. Most tests wait, so more than there are processors are useful. Those that
# must run alone are marked so, and run after the others.
JOBS ?= 4
# What `make quick` compares with: it checks what has changed since this branch left it.
BASE ?= main

ifeq ($(PYTHON),python3)
VENV := .venv
else
VENV := .venv-$(patsubst python%,%,$(notdir $(PYTHON)))
endif
BIN := $(VENV)/bin
RELEASE := .venv-release$(patsubst .venv%,%,$(VENV))
AUDIT := .venv-audit$(patsubst .venv%,%,$(VENV))
BUILD := $(VENV)/.build
DEPS := $(VENV)/.deps
CORE := $(VENV)/.core-$(PROFILE)
SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

# Each process begins with a part of the list, so that most files stay together and share servers.
PYTEST := $(BIN)/python -m pytest
AT_ONCE = $(if $(filter-out 1,$(JOBS)),--numprocesses $(JOBS) --dist worksteal)
WITHOUT_EAGER_TASKS := --eager-tasks off tests/native tests/asgi tests/mount tests/frameworks
# The files that differ from $(BASE), whether committed or not; all where there is no $(BASE).
CHANGED := { base=$$(git merge-base HEAD $(BASE) 2>/dev/null) && git diff --name-only $$base \
  || git ls-files; git ls-files --others --exclude-standard; }

SITE := .venv-site

# How much `make faults` does: full or long.
FAULTS := full

# How long `make soak` lasts.
SOAK_MINUTES := 30

BENCH := bench
BENCHED := japronto
ifeq ($(BENCH),bench-servers)
BENCHED := bolide-asgi-uvloop uvicorn granian-asgi granian-wsgi fastpysgi-asgi bjoern uwsgi fastapi-bolide \
  fastapi-uvicorn fastapi-granian fastapi-gunicorn flask-bolide flask-granian flask-gunicorn flask-uwsgi-threads \
  django-bolide django-granian django-gunicorn django-uwsgi
endif
ifeq ($(BENCH),tls-http2)
BENCHED := hyper-tls go-tls granian-asgi-tls uvicorn-tls hypercorn-tls gunicorn-asgi-tls
endif
ifeq ($(BENCH),websocket)
BENCHED := uvicorn-websockets uvicorn-wsproto granian-asgi gunicorn-asgi hypercorn aiohttp-messages sanic \
  tornado-messages socketify go-messages node-messages
endif
RACERS := uvicorn gunicorn-gthread granian-asgi granian-wsgi aiohttp-app-uvloop fastpysgi-wsgi

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1

.DEFAULT_GOAL := help
.PHONY: help setup run test quick quick-lint check audit faults soak fix bench race compat suites applications docs site wheel wheels needs lint

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEPS) $(CORE) ## Create .venv with every tool and the built core (PYTHON=python3.12, PROFILE=dev)

run: $(CORE) ## Serve examples/hello.py on 127.0.0.1:8000
	@echo "Serving examples/hello.py on http://127.0.0.1:8000 (Ctrl-C stops it)"
	@exec $(BIN)/bolide serve examples/hello.py --host 127.0.0.1 --port 8000

test: ## Everything that must pass before a change lands
	@$(MAKE) --no-print-directory PROFILE=dev lint
	cargo test --quiet --workspace --exclude bolide-py
	$(PYTEST) $(AT_ONCE) -m "not alone"
	$(PYTEST) -m "alone and not matrix"
	$(PYTEST) $(AT_ONCE) $(WITHOUT_EAGER_TASKS)

quick: ## Within a minute: lints of what has changed, and the fast tests
	@$(MAKE) --no-print-directory PROFILE=dev quick-lint
	$(PYTEST) $(AT_ONCE) --quiet -m "not alone and not slow and not browser and not tools"

check: ## Formats, lints and types, as in `make test`, and the audit
	@$(MAKE) --no-print-directory PROFILE=dev lint
	@$(MAKE) --no-print-directory audit

audit: $(DEPS) $(AUDIT)/.deps ## Licenses and known vulnerabilities of what Bolide depends on (AUDITED="--strict")
	@PATH="$(CURDIR)/$(AUDIT)/bin:$$PATH" $(BIN)/python release/audit.py \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" $(AUDITED)

lint: $(DEPS) $(CORE)
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(BIN)/mypy python/bolide
	$(BIN)/python -m mypy.stubtest bolide._core --ignore-disjoint-bases

quick-lint: $(DEPS) $(CORE)
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@! $(CHANGED) | grep -q '^crates/' \
	  || { cargo fmt --all --check && cargo clippy --quiet --workspace --all-targets -- -D warnings; }
	@! $(CHANGED) | grep -q '^python/' || $(BIN)/mypy python/bolide
	@! $(CHANGED) | grep -Eq '^crates/py/|_core\.pyi$$' \
	  || $(BIN)/python -m mypy.stubtest bolide._core --ignore-disjoint-bases

fix: $(DEPS) ## Format, and repair what the linters can
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEPS) $(CORE) ## What Bolide must reach against a baseline, Japronto and nginx (BENCH=bench-servers, tls-http2, websocket: others)
	-$(BIN)/bolide race setup $(BENCHED)
	$(BIN)/bolide race $(BENCH)

race: $(DEPS) $(CORE) ## A quick race of Bolide and the Python servers that install from wheels
	$(BIN)/bolide race setup $(RACERS)
	@out=race-results/$$(date +%Y%m%d-%H%M%S) \
	  && $(BIN)/bolide race pipelining --workload single-bolide --rounds 2 --duration 1 \
	    --only "ceiling bolide-* $(RACERS)" --out $$out \
	  && $(BIN)/bolide race report $$out

faults: $(DEPS) $(CORE) ## Produce every fault of docs/reliability.md, and write that page (FAULTS=long: 10 GiB instead of 1)
	FAULTS=$(FAULTS) FAULTS_RECORD=docs/reliability.json PYTHONPATH=tests \
	  $(PYTEST) -p faults.recording tests/faults $$(PYTHONPATH=tests $(BIN)/python -m faults.rows)
	PYTHONPATH=tests $(BIN)/python -m faults.report

soak: $(DEPS) $(CORE) ## Servers of every interface under mixed traffic for SOAK_MINUTES: nothing is lost, nothing grows
	FAULTS_RECORD=docs/reliability.json PYTHONPATH=tests $(BIN)/python -m faults.soak --minutes $(SOAK_MINUTES)
	PYTHONPATH=tests $(BIN)/python -m faults.report

compat: $(DEPS) $(CORE) ## Run another server's ASGI checks and h2spec against this one (SERVE="--loop uvloop")
	$(BIN)/python compat/run.py $(SERVE)
	$(BIN)/python compat/h2spec.py

suites: $(DEPS) $(CORE) ## Run Starlette's and Django's own test suites against a live server
	$(BIN)/python compat/suites/run.py

applications: $(DEPS) $(CORE) ## Compare whole applications on this server, uvicorn and gunicorn (ONLY="on_gradio")
	$(BIN)/python compat/applications/run.py $(ONLY)

docs: $(DEPS) $(CORE) ## Write docs/settings.md from the option table, and the reports of docs/results
	$(BIN)/python -m bolide.config.reference > docs/settings.md
	@set -e; for folder in docs/results/*/; do $(BIN)/bolide race report "$$folder"; done

site: $(SITE)/.deps ## Build the documentation into target/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file site/mkdocs.yml
	@echo target/site/index.html

wheel: $(RELEASE)/.deps ## Build the sdist and a wheel for this machine and interpreter into dist/
	$(RELEASE)/bin/python release/wheels.py --here $(RELEASED)

wheels: $(RELEASE)/.deps $(DEPS) ## Build the sdist and all wheels into dist/; test those that can run here
	@rm -f dist/bolide-* dist/bolide_lab-*
	$(RELEASE)/bin/python release/wheels.py $(RELEASED)
	$(RELEASE)/bin/twine check --strict dist/*
	BOLIDE_WHEELS=dist BOLIDE_SDIST=$$(echo dist/*.tar.gz) BOLIDE_LAB_WHEEL=$$(echo dist/bolide_lab-*.whl) \
	  $(BIN)/python -m pytest tests/release

needs:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "make: Bolide needs Python 3.11 or newer as '$(PYTHON)'; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "make: '$(PYTHON)' has no venv module; install your distribution's python3-venv package" >&2; exit 1; }
	@command -v cargo >/dev/null \
	  || { echo "make: Bolide needs cargo (Rust 1.88 or newer) on the PATH; install Rust with rustup" >&2; exit 1; }
	@command -v cc >/dev/null \
	  || { echo "make: Bolide needs a C compiler as 'cc' to build its core; install gcc or clang" >&2; exit 1; }

# What building and running need; tests and tools come with $(DEPS).
$(BUILD): pyproject.toml | needs
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --group build
	@touch $@

$(DEPS): $(BUILD)
	$(BIN)/python -m pip install --group dev --group frameworks
	@touch $@

$(SITE)/.deps: pyproject.toml
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --upgrade 'pip>=25.1'
	$(SITE)/bin/python -m pip install --group site
	@touch $@

$(RELEASE)/.deps: pyproject.toml | needs
	@test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --upgrade 'pip>=25.1'
	$(RELEASE)/bin/python -m pip install --group release
	@touch $@

$(AUDIT)/.deps: pyproject.toml | needs
	@test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --upgrade 'pip>=25.1'
	$(AUDIT)/bin/python -m pip install --group audit
	@touch $@

$(CORE): $(SOURCES) $(BUILD)
	$(BIN)/maturin develop --quiet $(BUILD_$(PROFILE))
	@rm -f $(VENV)/.core-* && touch $@
