# Each target sets up all that it needs in a local environment; nothing is installed outside this directory.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.setup-stamp
TOOLS := $(VENV)/.tools-stamp
DEMO_STAMP := $(VENV)/.demo-stamp
# Bytecode is compiled where it is imported; most of what Spark brings never is.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile
COMPILED := build/compiled
# Many tests wait, for Spark and other servers above all: two processors carry three at a time. Those of `make interop` start
# JVMs of others and clients with time limits of their own: two at a time. A hanging test ends its process, and is not tried
# again in another. tests/conftest.py says what stays together and in which order.
PARALLEL := --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations=25 --durations-min=5
# A Java that starts Spark in half the time: see tests/java.py.
TEST_JAVA := $(CURDIR)/build/java
# What is started there is not ours, and takes long: `make interop`.
OUTSIDE := tests/interop tests/submission
# A minute a kind; the seed is printed with each finding. `make attack ATTACK="--kind kill --seconds 600"`.
ATTACK ?= --seconds 60
# An hour of topics, groups and clients that come and go; `make test` plays its shape. `make soak SOAK="--seconds 600"`.
SOAK ?= --seconds 3600
# Four minutes each where others work as well. `make test` plays the first.
SINK_KILLS ?= $(shell seq 20)
WHEEL_PYTHONS ?= 3.11 3.12 3.13 3.14
SUITE := -n 3 $(PARALLEL) $(OUTSIDE:%=--ignore=%)
# The rooms that have compiled modules, what is told of their bytes, and them put together. The others are the same Python in
# both builds. `make test-interpreted INTERPRETED=tests` runs all.
INTERPRETED ?= $(addprefix tests/,contract crash golden property \
                 $(addprefix unit/,access broker model record server store transport wire))

# Where a machine forbids compiled Python in files, each of the many processes would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Says what it does, and how long that took.
define step
@echo $(1) ...; begin=$$(date +%s); $(2) && echo $(1): $$(($$(date +%s) - begin)) s
endef

.PHONY: help setup compiled demo test test-built test-interpreted test-compiled lint check bench interop interop-long mutants attack \
        soak sink-kills fuzz wheels clean

help:
	@echo "make demo     real flights, each committed and applied once while relay, broker and consumer are killed, and the verdict"
	@echo "              (those of January 2013; DEMO=--all: of the whole year)"
	@echo "make test     the suite, interpreted and compiled (what runs once: CONTRIBUTING.md)"
	@echo "make check    lint, and the tests of what differs from main: two minutes"
	@echo "make lint     ruff, mypy, import-linter, phrases that no docstring, comment or message has"
	@echo "make mutants  faults put into the code one at a time: which of them no test sees (MUTANTS=\"--only ladder\")"
	@echo "make attack   kill, corrupt, storm, full disk, hostile frames, forged ids (ATTACK=\"--kind kill --seconds 600\")"
	@echo "make soak     an hour of topics, groups and clients that come and go: what a broker holds does not grow"
	@echo "make fuzz     a fuzzer at the compiled parsers, under AddressSanitizer (FUZZ=\"--seconds 3600\")"
	@echo "make sink-kills  kills around the Spark sink: driver, executors, broker (SINK_KILLS=\"1 2 3\", seeds)"
	@echo "make interop  official RocketMQ clients, brokers and tools, Spark clusters, MariaDB (needs mvn, go, node)"
	@echo "make interop-long  promotions, reads that move, two groups of brokers, RocketMQ 5 clients (needs cargo too)"
	@echo "make wheels   a compiled wheel for each CPython from 3.11 to 3.14 that is installed, in dist/"
	@echo "make bench    paired with the real RocketMQ broker and Spark's own Parquet scan"

setup: $(STAMP)

$(TOOLS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Regulus needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(call step,"making $(VENV) with Cython",{ test -x $(PY) || $(PYTHON) -m venv $(VENV); } \
	  && $(INSTALL) $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])'))
	@touch $@

# What the demo needs, and no more: Spark and its Java are most of it.
$(DEMO_STAMP): $(TOOLS)
	$(call step,"installing Spark Java and the flights",REGULUS_SKIP_CYTHON=1 $(INSTALL) --no-build-isolation --editable '.[demo]')
	@touch $@

$(STAMP): $(TOOLS) setup.py build_ext.py
	$(call step,"installing all that tests need",REGULUS_SKIP_CYTHON=1 $(INSTALL) --no-build-isolation --editable '.[all]')
	@touch $(DEMO_STAMP) $@

# A copy of the package with the hot modules compiled; src/ itself stays interpreted.
compiled: $(TOOLS)
	$(call step,"compiling the hot modules",$(PY) build_ext.py $(COMPILED))

demo:
	@$(MAKE) --no-print-directory -j2 compiled $(DEMO_STAMP)
	@PYTHONPATH=$(COMPILED) $(PY) -m regulus.cli.main demo $(DEMO)

test: test-interpreted test-compiled

# Both take a processor and a half.
test-interpreted test-compiled: test-built
test-built: $(STAMP)
	@$(MAKE) --no-print-directory -j2 compiled $(TEST_JAVA)/release

$(TEST_JAVA)/release: $(STAMP) tests/java.py
	$(call step,"making $(TEST_JAVA) the Java of the tests",$(PY) -m tests.java $(TEST_JAVA))

test-interpreted:
	JAVA_HOME=$(TEST_JAVA) REGULUS_TEST_BUILD=interpreted $(PY) -m pytest $(INTERPRETED) $(SUITE) \
	  -m "not once and not jobs"

test-compiled:
	JAVA_HOME=$(TEST_JAVA) REGULUS_TEST_BUILD=compiled PYTHONPATH=$(COMPILED) $(PY) -m pytest tests $(SUITE)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m tests.plain_english

# The rooms that differ from main, in two minutes; what needs Spark or is slow is left to `make test`.
check: lint
	JAVA_HOME=$(TEST_JAVA) REGULUS_TEST_BUILD=interpreted $(PY) -m pytest $$($(PY) -m tests.changed) -n 3 $(PARALLEL) -q \
	  -m "not once and not jobs and not spark and not interop and not long"

interop: $(STAMP) compiled
	PYTHONPATH=$(COMPILED) $(PY) -m pytest $(OUTSIDE) -n 2 $(PARALLEL) -m "not long"

interop-long: $(STAMP) compiled
	PYTHONPATH=$(COMPILED) $(PY) -m pytest $(OUTSIDE) -m long

# Interpreted, because a mutant is tried as soon as it is written.
mutants: $(STAMP)
	$(PY) -m tests.mutants.run $(MUTANTS)

soak: $(STAMP) compiled
	PYTHONPATH=$(COMPILED) $(PY) -m regulus.testing.attack --kind churn $(SOAK)

attack: $(STAMP) compiled
	PYTHONPATH=$(COMPILED) $(PY) -m regulus.testing.attack --frames tests/golden/frames $(ATTACK)

# It compiles a copy of its own, with clang.
fuzz: $(STAMP)
	PYTHONPATH=src $(PY) -m tests.fuzz $(FUZZ)

sink-kills: $(STAMP) compiled $(TEST_JAVA)/release
	JAVA_HOME=$(TEST_JAVA) PYTHONPATH=$(COMPILED) REGULUS_SINK_SEEDS="$(SINK_KILLS)" \
	  $(PY) -m pytest tests/crash/test_spark_sink_killed.py

bench: $(STAMP) compiled
	PYTHONPATH=$(COMPILED) $(PY) bench/run.py $(BENCH)

# One for each of these that the machine has; the others are skipped by name.
wheels:
	@for version in $(WHEEL_PYTHONS); do \
	  if ! "python$$version" -c '' 2>/dev/null; then echo "no python$$version here: no wheel for it"; continue; fi; \
	  echo "compiling for CPython $$version ..."; \
	  REGULUS_REQUIRE_CYTHON=1 "python$$version" -m pip wheel --quiet --disable-pip-version-check --no-deps \
	    --wheel-dir dist . || exit 1; \
	done
	@ls dist/*.whl

clean:
	rm -rf build dist $(VENV) demo-run
