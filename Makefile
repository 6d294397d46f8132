# Everything is installed into .venv, once, and again when requirements.lock or pyproject.toml changes.
# `make` alone says what there is.

BIN := .venv/bin
READY := .venv/ready
PYTEST := $(BIN)/python -m pytest
JOBS := 4

# Tests start thousands of Python processes, each of which would compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo 'make setup   a virtual environment with everything needed, in .venv'
	@echo 'make demo    a year of flights, as a stream, on Spark or without it'
	@echo 'make test    all tests, $(JOBS) files at a time; JOBS=2 for less load'
	@echo 'make quick   the tests that need no JVM and little time, some two minutes'
	@echo 'make chaos   programs under random kills; KILLS=500 SEED=7; KEEP=1 keeps the counts'
	@echo 'make readers readers in four processes, and a program that is killed meanwhile; TRANSFERS=200000; KEEP=1; then of every kind of store'
	@echo 'make outages programs over a Kafka broker that is killed, away, silent, full or moves; some 10 minutes'
	@echo 'make mutations  breaks each point of the proposals, whose tests must notice; IDS="914 94-03"'
	@echo 'make lint    ruff, mypy, and the English of README, docs and CHANGELOG'
	@echo 'make bench   the benchmarks; BENCH="--quick W1 W8" for some of them, see BENCH=--help'
	@echo 'make soak    an hour at 2,000 records a second; MINUTES=60; KEEP=1 keeps the figures'
	@echo 'make dist    the wheel and the source archive, checked in empty environments of all Pythons'
	@echo 'make matrix  the wheel with each Python and PySpark that is supported; MATRIX="--python 3.12 --spark 4.0 4.3"'
	@echo 'make docs    the documentation as a site, in site/, every link checked'
	@echo 'make pictures  the pictures of docs/looking.md, which need Chromium, and the plot of the README'
	@echo 'make release-state VERSION=X.Y.Z   what this release leaves on disk, for the tests of later ones'
	@echo 'make lock    requirements.lock from pyproject.toml; needs uv'
	@echo 'make clean   remove what these made'

setup: $(READY)

$(READY): scripts/setup requirements.lock pyproject.toml
	@scripts/setup .venv
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/flights/main.py

# Most of the time goes into starting Spark and programs that are killed, and waiting for them: four at a time keep two
# cores busy. Files with slow tests go first (tests/conftest.py). Spark starts with a quarter less work when its classes
# are in an archive, which is made once; and rules are compiled once, rather than by each process at the same time.
test: $(READY)
	@$(BIN)/python scripts/compile_rules.py
	@$(BIN)/python -m penstock.engine.spark.class_archive
	@$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=20

quick: $(READY)
	@$(BIN)/python scripts/compile_rules.py
	@$(PYTEST) -n 3 --dist worksteal -m 'not slow' --hypothesis-profile=few

KILLS := 500

chaos: $(READY)
	@$(BIN)/python tests/faults/chaos.py --kills $(KILLS) $(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep)

TRANSFERS := 200000
RECORDS := 300

readers: $(READY)
	@folder=$$(mktemp -d) && $(BIN)/python tests/faults/transfers.py $$folder --prove $(TRANSFERS) 60 $(if $(KEEP),--keep) && rm -r $$folder
	@folder=$$(mktemp -d) && $(BIN)/python tests/faults/readers.py $$folder --prove $(RECORDS) 20 $(if $(KEEP),--keep) && rm -r $$folder

outages: $(READY)
	@$(PYTEST) tests/faults/outages.py -n 0 -v

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python scripts/prose.py
	@$(BIN)/mypy

bench: $(READY)
	@$(BIN)/python -m bench.run $(BENCH)

MINUTES := 60

soak: $(READY)
	@$(BIN)/python -m bench.soak --minutes $(MINUTES) $(if $(KEEP),--keep)

# In empty environments: without Java for each Python that is here, and on Spark, some 400 MB from the package index.
# PENSTOCK_REPOSITORY, the URL of the repository, makes the links that the package index shows.
dist: $(READY)
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . >dist.log 2>&1 || { cat dist.log; exit 1; }
	@rm dist.log
	@$(BIN)/python scripts/check_dist.py dist

matrix: dist
	@$(BIN)/python scripts/matrix.py dist $(MATRIX)

release-state: $(READY)
	@cd tests && ../$(BIN)/python -m support.release $(VERSION)

docs: $(READY)
	@$(BIN)/python scripts/site_pages.py site
	@echo 'site/index.html is where it begins.'

# The same beside earlier versions, which VERSIONS has: a folder to publish.
VERSIONS ?= versions
docs-version: docs
	@$(BIN)/python scripts/site_versions.py site $(VERSIONS)

mutations: $(READY)
	@$(BIN)/python scripts/mutations.py $(IDS)

pictures: $(READY)
	@$(BIN)/python scripts/plot.py
	@$(BIN)/python scripts/screenshots.py

# What is pinned already stays as it is; UPGRADE=--upgrade takes the newest of everything.
lock:
	@uv --version >/dev/null || { echo 'make lock needs uv: pip install uv' >&2; exit 1; }
	@uv pip compile pyproject.toml --all-extras --universal --fork-strategy fewest --python-version 3.11 \
		--generate-hashes --no-annotate --quiet --custom-compile-command 'make lock   (needs uv; make lock UPGRADE=--upgrade takes the newest of everything)' -o requirements.lock $(UPGRADE)

clean:
	rm -rf .venv .venv.log .penstock/demo bench/runs build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: matrix mutations docs docs-version outages release-state dist pictures soak chaos readers help setup demo test quick lint bench lock clean
