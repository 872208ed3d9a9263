# make demo | test | test-slurm | adopt | setup | lint     (a fresh Debian machine with git, make, Python 3.11 and a compiler needs nothing else)
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
STUDY ?= config/demo.yaml
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test test-slurm adopt setup lint lock clean

setup: $(STAMP)

# The stamp depends on the lock: a changed lock installs anew, an unchanged one costs nothing.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: $(STAMP)
	snakemake --profile profiles/local --configfile $(STUDY)
	@cat results/$$(cir config name $(STUDY))/report/summary.txt

# Takes finished results over in this checkout, whatever their modification times: checked first, then marked up to date.
adopt: $(STAMP)
	cir audit results/$$(cir config name $(STUDY)) --study $(STUDY)
	snakemake --touch --forceall --profile profiles/local --configfile $(STUDY)

test: $(STAMP)
	pytest -n auto --dist loadfile -m "not slurm"

# Needs the packages of tests/slurm/install.sh and root; skips with the reason where they are missing.
test-slurm: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[slurm]'
	pytest -m slurm -rs -s tests/test_slurm.py

lint: $(STAMP)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile rules workflow
	snakemake --lint --configfile config/test.yaml
	cir config docs --check

lock:
	uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-strip-extras --extra dev --extra crate \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .snakemake
