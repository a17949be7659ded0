SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test demo lint types simulate bench-lake bench-replica bench-views bench-tpch bench-nexmark bench-scattered bench-index full soak ci

bin := .venv/bin
ready := .venv/.ready

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(ready) ## get the tools and make .venv

$(ready): pyproject.toml uv.lock scripts/bootstrap
	@scripts/bootstrap
	@touch $@

test: $(ready) ## run every suite and say how long each took
	@scripts/test

demo: $(ready) ## two views of a table that is being written, and a kill -9 (three minutes)
	@$(bin)/tidefill demo

lint: $(ready) ## check style and formatting
	@$(bin)/ruff check
	@$(bin)/ruff format --check

types: $(ready) ## check the types of src and tests
	@$(bin)/mypy

simulate: $(ready) ## try 2,000 random histories (about a minute)
	@$(bin)/tidefill simulate --seeds 2000
	@$(bin)/tidefill simulate --several --seeds 200
	@$(bin)/tidefill simulate --topic --seeds 200

bench-lake: $(ready) ## measure a backfill against CTAS, and a live step against MERGE (twenty minutes)
	@$(bin)/python -m benchmarks.lake

bench-replica: $(ready) ## measure a replica of PostgreSQL against Spark's own reader and MERGE (PEERS=1: and others; fifteen minutes)
	@if [[ "$$PEERS" == 1 ]]; then scripts/bootstrap --group peers; fi
	@$(bin)/python -m benchmarks.replica

bench-views: $(ready) ## measure a step of a view against the query computed anew (twenty minutes)
	@$(bin)/python -m benchmarks.views

bench-tpch: $(ready) ## measure a step of each TPC-H query against the query computed anew (half an hour)
	@$(bin)/python -m benchmarks.views tpch

bench-nexmark: $(ready) ## measure the build of each Nexmark query against CTAS, and how fresh some are (EVENTS, RATES, RATE_S; half an hour)
	@$(bin)/python -m benchmarks.nexmark.bench

bench-scattered: $(ready) ## measure a step of 1,000 scattered keys against MERGE (SIZES=5000000,20000000; fifteen minutes)
	@$(bin)/python -m benchmarks.scattered

bench-index: $(ready) ## measure a global index against CREATE UNIQUE INDEX CONCURRENTLY (ROWS=2000000,10000000; half an hour)
	@$(bin)/python -m benchmarks.index

full: $(ready) ## make test, all conformance tests, 11,000 random histories, a share of the soak (at most 90 minutes)
	@scripts/full

soak: $(ready) ## everything that make test leaves out, without a limit of time (hours)
	@$(bin)/tidefill simulate --seeds 20000
	@$(bin)/tidefill simulate --several --seeds 2000
	@$(bin)/tidefill simulate --topic --seeds 2000
	@$(bin)/python -m pytest -m "soak or full"

# A test that needs a browser fails without one, and is not skipped.
ci: export TIDEFILL_CI := 1
ci: lint types test ## what must pass before a change is merged
