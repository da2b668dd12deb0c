# The commands of Shardyard. `make help` lists them.
PYTHON ?= python3
VENV := .venv/bin/python
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help venv packages up down status env check test soak bench

help: ## list these commands
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | sed 's/[$$][$$]/$$/' | column -t -s '|'

venv:
	@$(PYTHON) -m lab.bootstrap

up: venv ## bring up the local stack (AWS emulator, Kubernetes, training) and train on it
	@$(VENV) -m lab up

down: venv ## destroy the local stack and prove that nothing is left; the cache stays
	@$(VENV) -m lab down

status: venv ## what runs, and how far the job is
	@$(VENV) -m lab status

env: ## print exports: eval "$$(make env)", then pulumi, kubectl, aws and promtool talk to the local stack
	@$(PYTHON) -m lab.bootstrap >&2
	@$(VENV) -m lab env

packages: # the trainer's too (torch), for checks without the rest of the toolchain
	@$(PYTHON) -m lab.bootstrap --trainer

check: packages ## lint, types and the fast tests (under two minutes)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@$(VENV) -m pytest -m "not lab and not processes and not soak" --durations=15

test: venv ## everything: the fast tests, the trainer's processes, and the whole life on the local stack
	@$(VENV) -m lab tools
	@$(MAKE) --no-print-directory check
	@$(VENV) -m tests.side_by_side --durations=25

soak: venv ## the long campaigns and full matrices that `make test` leaves out (docs/benchmarks.md)
	@$(VENV) -m lab tools
	@$(VENV) -m pytest -m soak --durations=25

bench: ## the trainer against its peers on this machine (half an hour; docs/benchmarks.md)
	@$(PYTHON) -m lab.bootstrap --bench
	@$(VENV) -m bench --json out/bench.json
