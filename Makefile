# The front door. Each target installs what it needs into .venv and does one thing.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# One BLAS thread a worker: the suite runs one process a core.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: install browser openssl softhsm paper proxy quick coverage test long demo docs serve screenshots plots notebook lint types borders format audit audit-quick bench \
	sequential warranties proofs bounds verifier verifier-mutants durable ledger interop service metrics api-clients selection gate licences release soak attacks lies twins \
	never-blocked damage first-receipt first-minutes start-up group-commit scale growth stream langgraph langgraph-suites mcp-conformance conversations locomo forgetting messy-tables mirrors clean

$(STAMP): pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

install: $(STAMP)

# The page is tested in a real browser: one that is there, else Debian's, else Playwright's own. The verifier that is one
# file is tried in Firefox, too.
browser: $(STAMP)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		(apt-get update -q && apt-get install -y -q chromium) || $(PYTHON) -m playwright install chromium
	@command -v firefox-esr || command -v firefox || (apt-get update -q && apt-get install -y -q firefox-esr)

# Time stamps are tested against OpenSSL's own authority.
openssl:
	@command -v openssl || (apt-get update -q && apt-get install -y -q openssl)
# Keys in a PKCS#11 token are tested with a token in software, Debian's.
softhsm:
	@command -v softhsm2-util || (apt-get update -q && apt-get install -y -q softhsm2)

# What an edit of the core needs to know at once: lint, the types of what changed, and the quick tests. Under a minute on 2 cores.
BASE ?= $(shell git merge-base HEAD^ main 2>/dev/null || git rev-parse HEAD^)
CORE := problem solver memory certificates ledger verify attestation

quick: $(STAMP) softhsm
	$(VENV)/bin/ruff check --quiet
	$(VENV)/bin/ruff format --check --quiet
	git diff --name-only --diff-filter=d $(BASE) -- '*.py' | xargs --no-run-if-empty $(VENV)/bin/mypy
	$(THREADS) $(PYTHON) -m pytest -q -n auto -m "not slow and not long" $(addprefix tests/,$(CORE))

coverage: $(STAMP) softhsm
	$(THREADS) $(PYTHON) -m pytest -q -n auto -m "not slow and not long" --cov --cov-report=term $(addprefix tests/,$(CORE))

# WeasyPrint draws text with Pango, and embeds these fonts in a certificate document.
paper: $(STAMP)
	@$(PYTHON) -c 'import weasyprint' 2>/dev/null && fc-list | grep -q DejaVuSans.ttf || \
		(apt-get update -q && apt-get install -y -q libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core fontconfig)

# The service is tested behind a proxy, Debian's nginx.
proxy: $(STAMP)
	@test -x /usr/sbin/nginx || command -v nginx || (apt-get update -q && apt-get install -y -q nginx-light)

test: $(STAMP) browser openssl softhsm paper proxy
	$(THREADS) $(PYTHON) -m pytest -n auto -m "not long"

# Tests of ten seconds and more: whole processes, and machine code made from nothing.
long: $(STAMP) browser openssl softhsm paper
	$(THREADS) $(PYTHON) -m pytest -n auto -m long

demo: $(STAMP)
	$(VENV)/bin/expunge demo --fresh

docs: $(STAMP)
	$(PYTHON) -m sphinx -q -W --keep-going -b html docs build/site

serve: $(STAMP)
	$(VENV)/bin/expunge serve --demo

screenshots: $(STAMP) browser
	$(PYTHON) tools/screenshots.py

notebook: $(STAMP)
	$(PYTHON) tools/run_notebook.py

plots: $(STAMP)
	$(PYTHON) tools/draw_plots.py

# The verifier that is one file, from the page's modules; a test holds the committed file to this.
verifier: $(STAMP)
	$(PYTHON) tools/build_verifier.py

# Needs Node 20 or newer.
verifier-mutants: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/verifier_mutants.py

audit: $(STAMP)
	$(VENV)/bin/expunge audit all --jobs 2 --out out/audit --resume
	$(VENV)/bin/expunge audit report out/audit --out out/report

audit-quick: $(STAMP) softhsm
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

ledger: $(STAMP)
	$(PYTHON) benchmarks/ledger_append.py

# Go's own reader of published logs, from Debian.
interop: $(STAMP) openssl softhsm
	@command -v go && test -d /usr/share/gocode/src/golang.org/x/mod || \
		(apt-get update -q && apt-get install -y -q golang-go golang-golang-x-mod-dev)
	$(PYTHON) benchmarks/interop.py

warranties: $(STAMP)
	$(PYTHON) benchmarks/warranties.py

service: $(STAMP)
	$(PYTHON) benchmarks/service_load.py
	$(PYTHON) benchmarks/service_load.py --kill

# Linters and a TypeScript client of the API's description, from npm. Needs npm and a package index.
api-clients: $(STAMP)
	$(PYTHON) benchmarks/api_clients.py

# Metrics beside the ledger, after a thousand mixed edits and jobs. About a minute.
metrics: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/metrics_ledger.py

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

# Lying ledgers are refused under the right code, and honest ones are not.
lies: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/lies.py

twins: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/twins.py

never-blocked: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/never_blocked.py

# Types the README's first commands on a machine as good as fresh; needs a package index.
first-receipt: $(STAMP)
	$(PYTHON) benchmarks/first_receipt.py

# Sixteen tables as people have them, from the file to a verified erasure.
messy-tables: $(STAMP)
	$(PYTHON) benchmarks/messy_tables.py

damage: $(STAMP) browser
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/certificate_damage.py

# Edits per second over HTTP: 32 clients on one memory and on 32, one and two workers.
group-commit: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/group_commit.py

# BEFORE=../older/src compares with another checkout.
start-up: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/start_up.py $(if $(BEFORE),--before $(BEFORE))

# Create, show, read, search and erase at 10,000 and 100,000 entries: seconds and memory.
first-minutes: $(STAMP)
	$(PYTHON) benchmarks/first_minutes.py

# Large memories beside LIBSVM's fit: seconds, processor seconds and memory of every phase.
scale: $(STAMP)
	$(PYTHON) benchmarks/scale.py

# Entries admitted one by one to a memory of which most have no weight, and imports into a store.
stream: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/stream.py

# Exponents of seconds and bytes over entries and coordinates, and a fleet on paper. Then: python benchmarks/summary.py --write
growth: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/growth.py

# What LangGraph's interface costs at 8,000 items: put, update and search, as ratios.
langgraph: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/langgraph_store.py

# LangGraph's tests of its own stores and savers, from the package index, against ours. About 10 minutes.
langgraph-suites: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/langgraph_suites.py

# The conformance suites of the Model Context Protocol, from npm, against `expunge mcp`. Needs npm and a package index.
mcp-conformance: $(STAMP)
	$(PYTHON) benchmarks/mcp_conformance.py --folder build/mcp-conformance

# A thousand random conversations over MCP, LangGraph and HTTP, with erasures; the seed is drawn. About 20 minutes on 2 cores.
conversations: $(STAMP)
	$(THREADS) $(PYTHON) benchmarks/conversations.py --conversations 1000 --jobs 2

# Evidence recall on LoCoMo, whose licence keeps it out of the repository: make locomo DATA=locomo10.json
locomo: $(STAMP)
	HF_HUB_OFFLINE=1 $(THREADS) $(PYTHON) benchmarks/locomo.py --data $(DATA)

# What a deletion leaves in other systems: by their own delete alone, and with expunge.
mirrors: $(STAMP)
	$(THREADS) PYTHONPATH=tests $(PYTHON) benchmarks/mirror_residue.py

# What a request to forget by meaning would miss, and take too much.
forgetting: $(STAMP)
	HF_HUB_OFFLINE=1 $(THREADS) $(PYTHON) benchmarks/forgetting.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
