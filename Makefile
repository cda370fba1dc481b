# Two commands matter: make report and make test. You run lint and test-fast all day; the rest is convenience.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

CORES ?= 8
# Default: the study in config/config.yaml.
STUDY ?=
# A crate, packed or unpacked, whose reports `make reproduce` makes again.
CRATE ?=
# Options of `jupyter lab`.
LAB ?=
# Workers of the tests: three more than processors, because some tests wait (tests/machine.py). At most 6, because each
# takes 600 MB.
WORKERS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 3 : 6)))
BIN := .venv/bin
# The commands below come from the environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help environment report crate reproduce lint test-fast test faults test-long mutants docs lab check format lock clean-reports clean-environment clean-loopback

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  STUDY=config/studies/x.yaml applies to report, crate and check; CORES=4 to report, crate and reproduce."

# A missing study file is reported before anything is installed.
environment:
	@[ -z "$(STUDY)" ] || [ -f "$(STUDY)" ] || { echo "STUDY=$(STUDY): there is no such study file" >&2; exit 2; }
	@sh setup/environment.sh

report: environment ## set up what is missing, measure what is missing, write reports/index.html
	@benchstudy run --cores $(CORES) report $(if $(STUDY),--configfile "$(STUDY)")
	@echo "$(CURDIR)/reports/index.html"

crate: environment ## pack the study as it stands, with everything needed to check it: reports/<study>.crate.zip
	@benchstudy run --cores $(CORES) crate $(if $(STUDY),--configfile "$(STUDY)") --config measure=false

# Needs only Python on this machine: it contacts no host, so it needs no ssh.
reproduce: ## make the reports of CRATE=x.crate.zip again without any host, and compare every table
	@[ -n "$(CRATE)" ] || { echo "name the crate: make reproduce CRATE=path/of/x.crate.zip" >&2; exit 2; }
	@sh setup/environment.sh reproduce
	@benchstudy reproduce "$(CRATE)" --cores $(CORES)

# On a host these modules lie in one folder and import each other by bare name, so they are type-checked that way.
ON_HOST := src/benchstudy/agent envs/mattermost/data $(shell find src -name on_host -type d -not -path '*/users/*' | sort)

lint: ## check the code without running it: style, layers, types, spelling
	@sh setup/environment.sh lint
	@codespell
	@ruff check --quiet . && ruff format --quiet --check . && snakefmt --check workflow
	@lint-imports
	@mypy & package=$$!; \
		MYPYPATH=$$(echo $(ON_HOST) | tr ' ' ':') mypy --explicit-package-bases --cache-dir .mypy_cache/on_host \
		$$(find $(ON_HOST) -name '*.py' -not -name __init__.py); on_host=$$?; wait $$package && exit $$on_host

test-fast: ## run the short tests that start no server and compile nothing: about two minutes on 2 cores
	@sh setup/environment.sh test
	@python -m pytest -n auto -m "not (server or build or slow or long)" $(PYTEST)

test: ## set up what is missing, then run the whole test suite
	@sh setup/environment.sh test
	@python -m pytest -n $(WORKERS) --no-loadscope-reorder --build-tools $(PYTEST)

faults: ## run only the tests of faults, and write docs/faults.md
	@sh setup/environment.sh test
	@python -m pytest -n $(WORKERS) --no-loadscope-reorder --build-tools -m fault --fault-table=docs/faults.md $(PYTEST)

INPUTS ?= 100000
MINUTES ?= 60
test-long: export BENCHSTUDY_TEST_LONG=1
test-long: ## reports by Slurm, failed system calls, INPUTS damaged inputs for parsers and readers, a soak of MINUTES
	@sh setup/environment.sh test
	@uv pip install --quiet --target .benchstudy/executors --require-hashes --no-deps -r requirements-executors.lock
	@python -m pytest tests/test_executors.py $(PYTEST)
	@python -m pytest tests/test_pages.py tests/test_publication.py -k a4 $(PYTEST)
	@python tests/injections.py --seed $$(date +%j)
	@python tests/fuzzing.py --inputs $(INPUTS) --jobs 2 --seed $$(date +%j) --keep .benchstudy/fuzz
	@python tests/soak.py --minutes $(MINUTES) --seed $$(date +%j)

MUTANTS ?= 600
mutants: ## change the code in MUTANTS places, one at a time, and see whether the fast tests notice
	@sh setup/environment.sh test
	@python tests/mutants.py --mutants $(MUTANTS) --seed $$(date +%j)

docs: ## build the documentation site with search in site/, and check every link and anchor
	@sh setup/environment.sh lint
	@NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "$(CURDIR)/site/index.html, or with search: python3 -m http.server --directory site"

lab: environment ## start JupyterLab on the notebooks; LAB="--no-browser --port=8890" passes options to it
	@benchstudy lab $(LAB)

check: environment ## try every host of the study without measuring anything
	@benchstudy check $(if $(STUDY),"$(STUDY)")

format: environment ## format the code
	@ruff check --fix . && ruff format . && snakefmt workflow

# The lock for tests contains the lock for users, pin for pin. The lock for executors holds only what they need besides.
RESOLVE = uv pip compile --quiet --universal --generate-hashes --override setup/overrides.txt -p 3.11 pyproject.toml
lock: ## resolve what pyproject.toml asks for and pin it by hash; UPGRADE="-P rich" upgrades a package
	@sh setup/environment.sh lint
	@$(RESOLVE) $(UPGRADE) --extra setup -o requirements.lock
	@$(RESOLVE) $(UPGRADE) --extra dev -c requirements.lock -o requirements-dev.lock
	@$(RESOLVE) $(UPGRADE) --extra slurm --extra kubernetes -c requirements.lock --no-header -o requirements-executors.lock \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock)

clean-reports: ## remove what the workflow can make again; never touches raw results
	@rm -rf data/tidy reports/* logs

clean-environment: ## remove .venv
	@rm -rf .venv

clean-loopback: ## remove the keys and sshd state of studies on this machine; the next run makes new ones
	@rm -rf .benchstudy/loopback
