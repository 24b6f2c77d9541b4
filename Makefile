# One page of commands. `make` alone prints them.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN     := bin
PROVIDER := $(BIN)/bao-kms-provider
MANAGER  := $(BIN)/bao-kms-manager
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
DIRTY   ?= $(shell test -z "$$(git status --porcelain 2>/dev/null)" && echo false || echo true)
BUILDVAR := -X github.com/baokms/baokms/internal/provider/version
LDFLAGS := -s -w $(BUILDVAR).number=$(VERSION) $(BUILDVAR).commit=$(COMMIT) $(BUILDVAR).buildDate=$(DATE) $(BUILDVAR).dirty=$(DIRTY)

# Longer fuzzing: make fuzz FUZZTIME=10m
FUZZTIME ?= 2m

.PHONY: help
help: ## Print this page
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/bao-kms-provider and bin/bao-kms-manager
	@echo "build $(PROVIDER) and $(MANAGER) $(VERSION)"
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(PROVIDER) ./cmd/provider
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(MANAGER) ./cmd/manager

.PHONY: servers
servers: ## Build the real servers for tests: kube-apiserver, etcd, Transit…
	@go run ./test/servers/build

.PHONY: tools
tools: ## Unpack promtool and Prometheus, which check the alerts
	@test/deploy/tools.sh

.PHONY: demo
demo: build ## Watch a Secret being encrypted (DEMO_KEEP=1 leaves it running)
	@go run ./test/servers/build etcd transit kubectl kube-apiserver
	@go run ./test/demo

.PHONY: test
test: build servers tools verify ## Everything that CI runs
	go test -race -timeout 20m ./api/... ./cmd/... ./internal/...
	test/fuzz.sh 4000x
	go test -timeout 30m -p 1 ./test/...
	cd test/packaging && go test -timeout 20m -p 1 ./...

.PHONY: verify
verify: ## Formatting, vet, staticcheck, generated files, go.mod
	@test/verify.sh

.PHONY: generate
generate: ## Write again what is generated
	go run ./cmd/provider config schema > docs/config.schema.json
	go test ./cmd/... -run TestManPages -update
	go generate ./api/... ./internal/controller/...
	cd charts/baokms/files && for f in */*; do cp ../../../config/$$f $$f; done

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME, and search larger fleets
	BAOKMS_TEST_BOUND=large go test -timeout 60m ./internal/provider/registry
	@test/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build servers ## Side-by-side figures: the socket, bare Transit, an empty hop
	go test -run '^$$' -bench . -benchmem ./internal/provider/...
	go run ./test/bench
