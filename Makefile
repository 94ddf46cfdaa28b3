SHELL := /bin/bash
VARIANT ?= $(or $(DFLASH_KIT_VARIANT),cpu)
KIT := .venv/bin/dflash-kit
GPU_PYTHON ?= python3
export DFLASH_KIT_VARIANT := $(VARIANT)

.PHONY: help up smoke down image test test-rollout test-releases test-image test-gpu lint bench compare
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -ts $$'\t'

up: image ## build the release, start it with docker compose, run the smoke test against it
	@scripts/with-docker scripts/start
	@$(MAKE) --no-print-directory smoke

smoke: .venv/kit ## run the smoke test against the running engine
	@scripts/with-docker $(KIT) smoke

down: ## stop the engine, and the throwaway Docker where one was used; keys and caches stay
	scripts/down

image: .venv/kit ## build the default release (VARIANT=cpu or cuda)
	scripts/image $(VARIANT)

test: .venv/test lint ## tests of the default release that need no GPU, but for the rollouts
	scripts/test

test-rollout: .venv/test ## rollouts onto two hosts: good, bad and cut-off ones (a quarter of an hour)
	scripts/test rollout

test-releases: .venv/test ## what is tried on the other releases, and rollouts across all
	scripts/test releases

test-image: .venv/test ## build the cuda variant and prove it on the CPU
	$(MAKE) image VARIANT=cuda
	scripts/with-docker .venv/bin/pytest tests/image

test-gpu: export PYTHONPATH := $(CURDIR)/src$(if $(PYTHONPATH),:$(PYTHONPATH))
test-gpu: ## patched against unpatched on this machine's GPUs (GPU_PYTHON: with the cuda requirements)
	$(GPU_PYTHON) tests/gpu/trees.py --out build/gpu/trees --release "$(DFLASH_KIT_RELEASE)"
	$(GPU_PYTHON) tests/gpu/measure.py --trees build/gpu/trees --out build/gpu/report.json

lint: .venv/test ## ruff, mypy, hadolint, yamllint, shellcheck, ansible-lint, stale generated files
	scripts/lint

bench: .venv/test image ## tok/s with and without the draft, alternating; of one engine: dflash-kit bench
	scripts/with-docker .venv/bin/python scripts/bench.py

compare: .venv/test ## all releases side by side on this machine: exactness, start, memory, speed (SHORT=1)
	scripts/with-docker .venv/bin/python scripts/compare_releases.py $(if $(SHORT),--short)

.venv/kit: pyproject.toml
	scripts/bootstrap kit

.venv/test: pyproject.toml
	scripts/bootstrap test
