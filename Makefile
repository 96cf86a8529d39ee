# Each target sets itself up: Python 3.10+ and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
# make test CONSTRAINTS=constraints.txt installs the very versions that were tried (Python 3.11)
CONSTRAINTS ?=
PIP := $(BIN)/python -m pip install --quiet $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= agg

.DEFAULT_GOAL := help
.PHONY: help run test mutants faults docs notebooks constraints clean

help: ## this list
	@echo "fairw2_nb: Wasserstein fairness penalties for neural networks"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/.installed ## the main job: six methods on the Adult data beside the paper, and a report
	$(BIN)/fairw2 run adult --preset quick --workers 2 --report fairw2-adult.html

test: .venv/.installed-dev ## run the notebooks, the tests, and the checks that everything is in step
	$(BIN)/python -m pytest -n 2 tests

mutants: .venv/.installed-dev ## plant known errors, one at a time: each must be noticed
	$(BIN)/python tests/mutants.py

faults: .venv/.installed-dev ## try to break rows, sweeps, trainings and tables, and keep what came of it (half an hour)
	$(BIN)/fairw2 run faults --out results

docs: .venv/.installed-dev ## rebuild modules, README.md and the site under docs/ from the notebooks
	$(BIN)/nbdev_export
	$(BIN)/python tools/build_docs.py

notebooks: .venv/.installed-dev ## run all notebooks and store their outputs
	$(BIN)/nbdev_export
	$(BIN)/python tools/run_notebooks.py

constraints: .venv/.installed-dev ## write down the versions that are installed
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//' > constraints.txt

clean: ## remove the environment and caches
	rm -rf .venv .pytest_cache .hypothesis _proc build *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed, and $$($(PYTHON) --version) was found. Name another with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.installed: settings.ini setup.py | .venv/bin/python
	$(PIP) --editable .
	@touch $@

.venv/.installed-dev: settings.ini setup.py | .venv/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ .venv/.installed
