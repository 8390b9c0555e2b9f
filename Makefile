# Everything here needs Go and, for the race detector, a C compiler. Tools come through tools/go.mod.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN      := bin
TOOL     := go tool -modfile=$(CURDIR)/tools/go.mod
NESTED   := bench .ci test/engine
FUZZTIME ?= 10s
COUNT    ?= 6
PKG      ?= ./...
BASE     ?=
KILLS    ?= 50
DURABILITY ?= process

.PHONY: help build test race fuzz crash crash-mutants sim sim-slots bench bench-e2e lint fmt check docs clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## compile hearth into bin/
	go build -trimpath -o $(BIN)/hearth ./cmd/hearth

test: ## run the tests (PKG=./internal/slot for one package)
	go test $(PKG)

race: ## run the tests with the race detector, each COUNT times (COUNT=6, PKG=./...)
	go test -race -count=$(COUNT) $(PKG)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@git ls-files -co --exclude-standard '*_test.go' | xargs grep -lE '^func Fuzz' | while read -r file; do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			echo "== $$name in $$(dirname "$$file") for $(FUZZTIME)"; \
			go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) "./$$(dirname "$$file")" </dev/null; \
		done; \
	done

crash: ## kill the gateway KILLS times (50) under load and reconcile its records with what a client was told; DURABILITY=power
	@mkdir -p $(BIN)
	go test -c -o $(BIN)/crash.test ./test/crash
	cd test/crash && $(CURDIR)/$(BIN)/crash.test -test.v -test.timeout 30m -test.run '^TestCrash$$' -kills $(KILLS) -durability $(DURABILITY)

crash-mutants: ## break the records in several ways, one after the other, and look whether the tests notice
	test/crash/mutants.sh

sim: ## simulate a market of providers and hold the figures of the reporting half against the gates; ARGS="--seed 4,5,6"
	go run ./cmd/hearth simulate --suite reporting --gates $(ARGS)

sim-slots: ## simulate how models share a GPU and hold the figures against the gates; ARGS="--runs 30 --seed 1000"
	go run ./cmd/hearth simulate slots --gates $(ARGS)

bench: ## run the micro-benchmarks COUNT times into bin/bench.txt; BASE=old.txt compares
	@mkdir -p $(BIN)
	go test -run='^$$' -bench=. -benchmem -count=$(COUNT) $(PKG) | tee $(BIN)/bench.txt
	$(TOOL) benchstat $(BASE) $(BIN)/bench.txt

bench-e2e: ## measure hearth from outside against its comparators; ARGS="-d 5s -rounds 5"
	@mkdir -p $(BIN)
	cd bench && go run ./e2e -o ../$(BIN)/bench-e2e.md -json ../$(BIN)/bench-e2e.json $(ARGS)

lint: ## run the linters
	$(TOOL) golangci-lint run ./...
	@for m in $(NESTED); do echo "lint $$m"; (cd $$m && $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

fmt: ## format the source
	gofmt -s -w $$(git ls-files -co --exclude-standard '*.go')

check: ## what CI runs: format, vet, lint, and all tests with the race detector
	@out=$$(gofmt -s -l $$(git ls-files -co --exclude-standard '*.go')); \
		if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	go vet ./...
	@$(MAKE) lint
	@{ rc=0; go test -race -timeout 30m -json ./... || rc=1; \
		for m in $(NESTED); do go -C $$m vet ./... || rc=1; go test -C $$m -race -timeout 30m -json ./... || rc=1; done; exit $$rc; } \
		| go run -C .ci .

docs: ## write the generated pages of docs/ again
	go generate ./...

clean: ## remove what the other targets made
	rm -rf $(BIN)
