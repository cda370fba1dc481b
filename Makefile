# Two commands matter: make report, make test. lint and test-fast are what one runs all day; the rest is convenience.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

CORES ?= 8
# The study of config/config.yaml unless another is named.
STUDY ?=
# A crate, packed or unpacked, whose reports are to be made again.
CRATE ?=
# Options of `jupyter lab`.
LAB ?=
# Tests run side by side, more than there are processors: much of their time they wait for servers.
WORKERS ?= 4
BIN := .venv/bin
# The commands below are of the environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help environment report crate reproduce lint test-fast test faults test-long mutants lab check format lock clean-reports clean-environment clean-loopback

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  STUDY=config/studies/x.yaml and CORES=4 apply to report, crate and check."

# A study that is not there is told before anything is installed for it.
environment:
	@[ -z "$(STUDY)" ] || [ -f "$(STUDY)" ] || { echo "STUDY=$(STUDY): there is no such study file" >&2; exit 2; }
	@sh setup/environment.sh

report: environment ## set up what is missing, measure what is missing, write reports/index.html
	@snakemake --cores $(CORES) report $(if $(STUDY),--configfile $(STUDY))
	@echo "$(CURDIR)/reports/index.html"

crate: environment ## pack the study as it stands, with all that it takes to check it: reports/<study>.crate.zip
	@snakemake --cores $(CORES) crate $(if $(STUDY),--configfile $(STUDY)) --config measure=false

# Of the machine it needs nothing but Python: no host is contacted, so no ssh.
reproduce: ## make the reports of CRATE=x.crate.zip again without any host, and compare every table
	@[ -n "$(CRATE)" ] || { echo "name the crate: make reproduce CRATE=path/of/x.crate.zip" >&2; exit 2; }
	@sh setup/environment.sh reproduce
	@benchstudy reproduce "$(CRATE)" --cores $(CORES)

# On a host these modules lie in one folder and import each other by their bare names: so they are type-checked.
ON_HOST := src/benchstudy/agent envs/mattermost/data $(shell find src -name on_host -type d -not -path '*/users/*' | sort)

lint: ## what can be said of the code without running it: style, layers, types
	@sh setup/environment.sh lint
	@ruff check --quiet . && ruff format --quiet --check . && snakefmt --check workflow
	@lint-imports
	@mypy
	@MYPYPATH=$$(echo $(ON_HOST) | tr ' ' ':') mypy --explicit-package-bases --cache-dir .mypy_cache/on_host \
		$$(find $(ON_HOST) -name '*.py' -not -name __init__.py)

test-fast: ## the tests that start no server and compile nothing: under two minutes on 2 cores
	@sh setup/environment.sh test
	@python -m pytest -n auto -m "not (server or build or slow)" $(PYTEST)

test: ## set up what is missing, then run the whole test suite
	@sh setup/environment.sh test
	@python -m pytest -n $(WORKERS) --no-loadscope-reorder --build-tools $(PYTEST)

faults: ## run the tests of faults alone, and write docs/faults.md
	@sh setup/environment.sh test
	@python -m pytest -n $(WORKERS) --no-loadscope-reorder --build-tools -m fault --fault-table=docs/faults.md $(PYTEST)

INPUTS ?= 100000
MINUTES ?= 60
test-long: export BENCHSTUDY_TEST_LONG=1
test-long: ## reports by Slurm, failed system calls, INPUTS damaged inputs for parsers and readers, a soak of MINUTES
	@sh setup/environment.sh test
	@uv pip install --quiet --target .benchstudy/executors --require-hashes --no-deps -r requirements-executors.lock
	@python -m pytest tests/test_executors.py $(PYTEST)
	@python tests/injections.py --seed $$(date +%j)
	@python tests/fuzzing.py --inputs $(INPUTS) --jobs 2 --seed $$(date +%j) --keep .benchstudy/fuzz
	@python tests/soak.py --minutes $(MINUTES) --seed $$(date +%j)

MUTANTS ?= 600
mutants: ## change the code in MUTANTS places, one at a time, and see whether the fast tests notice
	@sh setup/environment.sh test
	@python tests/mutants.py --mutants $(MUTANTS) --seed $$(date +%j)

lab: environment ## JupyterLab on the notebooks; LAB="--no-browser --port=8890" hands it options
	@benchstudy lab $(LAB)

check: environment ## try every host of the study without measuring anything
	@benchstudy check $(STUDY)

format: environment ## format the code
	@ruff check --fix . && ruff format . && snakefmt workflow

# The one of tests holds that of users, pin for pin. That of executors holds what they need beside it.
RESOLVE = uv pip compile --quiet --universal --generate-hashes --override setup/overrides.txt -p 3.11 pyproject.toml
lock: ## what pyproject.toml asks for, resolved and pinned by hash; UPGRADE="-P rich" takes a newer one
	@sh setup/environment.sh lint
	@$(RESOLVE) $(UPGRADE) --extra setup -o requirements.lock
	@$(RESOLVE) $(UPGRADE) --extra dev -c requirements.lock -o requirements-dev.lock
	@$(RESOLVE) $(UPGRADE) --extra slurm --extra kubernetes -c requirements.lock --no-header -o requirements-executors.lock \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock)

clean-reports: ## remove what the workflow can make again; raw results are never touched
	@rm -rf data/tidy reports/* logs

clean-environment: ## remove .venv
	@rm -rf .venv

clean-loopback: ## remove this machine's study keys and sshd state; the next run makes new ones
	@rm -rf .benchstudy
