# The front door. Each target installs what it needs into .venv and does one thing.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# One BLAS thread a worker: the suite runs one process a core.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: install test demo lint types borders format bench warranties soak clean

$(STAMP): pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

install: $(STAMP)

test: $(STAMP)
	$(THREADS) $(PYTHON) -m pytest -n auto

demo: $(STAMP)
	$(PYTHON) -m expunge.demo

lint: $(STAMP)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: $(STAMP)
	$(VENV)/bin/mypy

borders: $(STAMP)
	$(VENV)/bin/lint-imports

format: $(STAMP)
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: $(STAMP)
	$(PYTHON) benchmarks/edits.py

warranties: $(STAMP)
	$(PYTHON) benchmarks/warranties.py

soak: $(STAMP)
	$(PYTHON) benchmarks/soak.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
