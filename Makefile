# Every target sets up what it needs: python3 >= 3.11 and a package index are enough (test-e2e also needs Go).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_VENV := .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
AUDIT_VENV := .venv-audit
AUDIT_READY := $(AUDIT_VENV)/.ready
# Threads of the test run; two cores are what we promise to be fast on.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-e2e test-upstream lint types coverage format crds reference bench bench-live docs wheel sbom audit image release-image changelog lock clean

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11" >&2; echo "hint:  make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up $(VENV) (once) ..." >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DOCS_READY): requirements/docs.txt
	@echo "setting up $(DOCS_VENV) (once) ..." >&2
	@$(PYTHON) -m venv --clear $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

demo: $(READY)  ## Show the product at work, without an AWS account.
	@$(BIN)/karpenter demo --yes

test: lint types $(READY)  ## Lint, types, all tests but those that need Go, and the coverage floors.
	@rm -f .coverage .coverage.*
	$(BIN)/python -m pytest tests -m "not e2e" --ignore=tests/property -n $(JOBS) --cov --cov-report=
	$(BIN)/python -m pytest tests/property -n $(JOBS)
	@$(MAKE) --no-print-directory coverage

coverage: $(READY)
	@$(BIN)/python -m coverage report --include='src/karpenter/kit/*,src/karpenter/model/*' --fail-under=100
	@$(BIN)/python -m coverage report --include='src/karpenter/api/*,src/karpenter/cli/*' --fail-under=95
	@$(BIN)/python -m coverage report --include='src/karpenter/scheduling/*,src/karpenter/consolidation/*' --fail-under=100
	@$(BIN)/python -m coverage report --include='src/karpenter/facts/*,src/karpenter/cloud/*' --fail-under=95
	@$(BIN)/python -m coverage report --include='src/karpenter/kube/*,src/karpenter/state/*,src/karpenter/observe/*,src/karpenter/controllers/*' --fail-under=95

test-fast: $(READY)  ## The unit tests alone, stopping at the first failure.
	$(BIN)/python -m pytest tests/unit -x -q -n $(JOBS)

test-e2e: $(READY)  ## Tests on a real kube-apiserver, controller manager, scheduler and kubectl (needs Go; built once).
	$(BIN)/python -m tests.e2e.controlplane build
	$(BIN)/python -m pytest tests/e2e -m e2e --timeout=400 -n $(JOBS) --dist loadfile

# Which of upstream's suites and which of their specs (all by default), where they run, and with whose controller.
SUITES ?=
FOCUS ?=
PLANE ?= sandbox
CONTROLLER ?= ours
# A plane takes about a core while machines boot, and little in between.
UPSTREAM_JOBS ?= 3

test-upstream: $(READY)  ## The Go project's end-to-end suites against ours (needs Go; hours). SUITES=, FOCUS=, PLANE=, CONTROLLER=
	$(BIN)/python -m tests.e2e.controlplane build
	$(BIN)/python -m tests.upstream --suites "$(SUITES)" --focus "$(FOCUS)" --plane "$(PLANE)" --controller "$(CONTROLLER)" --jobs $(UPSTREAM_JOBS)

lint: $(READY)  ## ruff, the format, and the layer rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)  ## mypy, strict.
	$(BIN)/mypy

format: $(READY)  ## Rewrite the sources in our format.
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format .

crds: $(READY)  ## Write src/karpenter/api/crds/*.yaml anew from the types.
	$(BIN)/python -m karpenter.api.crds

bench: $(READY)  ## Measure, beside the Go scheduler where Go is there; the last lines are a table.
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.launch_claims
	$(BIN)/python -m benchmarks.interruptions
	$(BIN)/python -m benchmarks.providers
	$(BIN)/python -m benchmarks.peers

reference: $(READY)  ## Write the reference pages anew from the code.
	$(BIN)/python -m tools.reference

bench-live: $(READY)  ## Measure the controller on a real control plane, beside the Go Karpenter (needs Go; half an hour).
	$(BIN)/python -m benchmarks.live reaction
	$(BIN)/python -m benchmarks.live placement
	$(BIN)/python -m benchmarks.live storm
	$(BIN)/python -m benchmarks.live holding

docs: $(DOCS_READY)  ## Build the documentation into site/; warnings are errors.
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

wheel: $(READY)  ## Build the wheel into dist/; the same sources give the same bytes.
	@$(BIN)/python -m hatchling build -t wheel -d dist

sbom: $(READY)  ## List what the product is made of (CycloneDX) in dist/sbom.json.
	@mkdir -p dist
	@$(BIN)/python -m tools.sbom > dist/sbom.json
	@echo "dist/sbom.json"

$(AUDIT_READY): requirements/audit.txt
	@echo "setting up $(AUDIT_VENV) (once) ..." >&2
	@$(PYTHON) -m venv --clear $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch $@

audit: $(AUDIT_READY)  ## Ask for known holes in the locked packages (needs a vulnerability service).
	$(AUDIT_VENV)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/runtime.txt

image: wheel  ## Build the controller's image (needs docker and a registry).
	docker build --tag karpenter-python:dev .

release-image: wheel  ## Build it for others: BUILD=IMAGE:TAG@sha256:... RUN=... TAG=... (refuses bases without a digest).
	@$(BIN)/python -m tools.image --build "$(BUILD)" --run "$(RUN)" --tag "$(or $(TAG),karpenter-python:release)"

changelog: $(READY)  ## Show what the next release's notes will say.
	$(BIN)/towncrier build --draft

lock:  ## Resolve the requirements anew (needs uv).
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q -U -o requirements/runtime.txt
	uv pip compile pyproject.toml --group test --group check --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q -U -o requirements/dev.txt
	uv pip compile pyproject.toml --group docs --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q -U -o requirements/docs.txt
	uv pip compile pyproject.toml --group audit --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q -U -o requirements/audit.txt
	uv pip compile --group awscli --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q -U -o requirements/awscli.txt

clean:  ## Remove what the targets made.
	rm -rf $(VENV) $(DOCS_VENV) $(AUDIT_VENV) .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis site dist build
