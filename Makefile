# The front door. Each target installs what it needs into .venv and does one thing.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# One BLAS thread a worker: the suite runs one process a core.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: install test demo lint types borders format bench sequential warranties proofs bounds projection durable soak clean

$(STAMP): pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

install: $(STAMP)

test: $(STAMP)
	$(THREADS) $(PYTHON) -m pytest -n auto

demo: $(STAMP)
	$(PYTHON) -m expunge.demo --fresh

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

sequential: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/sequential.py --seeds 41000:41010
	$(THREADS) $(PYTHON) benchmarks/sequential.py --seeds 42000:42010

proofs: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/proofs.py

bounds: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/bounds.py

projection: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/projection.py

durable: $(STAMP)
	$(PYTHON) benchmarks/durable.py

warranties: $(STAMP)
	$(PYTHON) benchmarks/warranties.py

soak: $(STAMP)
	$(PYTHON) benchmarks/soak.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
