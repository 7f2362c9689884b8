# The front door. Each target installs what it needs into .venv and does one thing.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# One BLAS thread a worker: the suite runs one process a core.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: install browser quick coverage test demo docs serve screenshots lint types borders format audit audit-quick bench sequential warranties proofs \
	bounds durable service selection gate licences release soak attacks twins clean

$(STAMP): pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

install: $(STAMP)

# The page is tested in a real browser: one that is there, else Debian's, else Playwright's own.
browser: $(STAMP)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		(apt-get update -q && apt-get install -y -q chromium) || $(PYTHON) -m playwright install chromium

# What an edit of the core needs to know at once: lint, the types of what changed, and the quick tests. Under a minute on 2 cores.
BASE ?= $(shell git merge-base HEAD^ main 2>/dev/null || git rev-parse HEAD^)
CORE := problem solver memory certificates ledger verify attestation

quick: $(STAMP)
	$(VENV)/bin/ruff check --quiet
	$(VENV)/bin/ruff format --check --quiet
	git diff --name-only --diff-filter=d $(BASE) -- '*.py' | xargs --no-run-if-empty $(VENV)/bin/mypy
	$(THREADS) $(PYTHON) -m pytest -q -n auto -m "not slow" $(addprefix tests/,$(CORE))

coverage: $(STAMP)
	$(THREADS) $(PYTHON) -m pytest -q -n auto -m "not slow" --cov --cov-report=term $(addprefix tests/,$(CORE))

test: $(STAMP) browser
	$(THREADS) $(PYTHON) -m pytest -n auto

demo: $(STAMP)
	$(VENV)/bin/expunge demo --fresh

docs: $(STAMP)
	$(PYTHON) -m sphinx -q -W --keep-going -b html docs build/site

serve: $(STAMP)
	$(VENV)/bin/expunge serve --demo

screenshots: $(STAMP) browser
	$(PYTHON) tools/screenshots.py

audit: $(STAMP)
	$(VENV)/bin/expunge audit all --jobs 2 --out out/audit --resume
	$(VENV)/bin/expunge audit report out/audit --out out/report

audit-quick: $(STAMP)
	$(VENV)/bin/expunge audit all --quick --jobs 2 --out out/audit-quick --resume
	$(VENV)/bin/expunge audit report out/audit-quick --out out/report-quick

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
	$(THREADS) $(PYTHON) benchmarks/edits.py $(if $(BESIDE),--beside $(BESIDE))

sequential: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/sequential.py --seeds 41000:41010
	$(THREADS) $(PYTHON) benchmarks/sequential.py --seeds 42000:42010

proofs: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/proofs.py

bounds: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/bounds.py

durable: $(STAMP)
	$(PYTHON) benchmarks/durable.py

warranties: $(STAMP)
	$(PYTHON) benchmarks/warranties.py

service: $(STAMP)
	$(PYTHON) benchmarks/service_load.py
	$(PYTHON) benchmarks/service_load.py --kill

selection: $(STAMP)
	$(PYTHON) benchmarks/selection_speed.py
	$(PYTHON) benchmarks/selection_results.py
	$(PYTHON) benchmarks/selection_tables.py --write

licences: $(STAMP)
	$(PYTHON) tools/dependencies.py

release: $(STAMP)
	$(PYTHON) tools/release.py check

gate: $(STAMP)
	$(PYTHON) benchmarks/gate.py --ahead

soak: $(STAMP)
	$(PYTHON) benchmarks/soak.py

attacks: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/erasure_attacks.py

twins: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/twins.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
