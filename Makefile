# What people and CI run. `make` alone lists the targets; ARGS="..." is handed on where it makes sense.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

ARGS ?=
# How long `make fuzz-smoke` runs each target.
FUZZ_SECONDS ?= 20

# need PROGRAM,HOW: stops with how to get a program that is not there.
need = @command -v $(1) >/dev/null || { echo "$(1) is missing: $(2)" >&2; exit 1; }
rust = $(call need,cargo,install Rust 1.89 or newer: https://rustup.rs)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Build the server and show it a first pod, without a cluster
	$(rust)
	cargo build
	cargo run --example first_pod -- $(ARGS)

.PHONY: test
test: ## Unit, integration and documentation tests; no cluster, no network
	$(rust)
	cargo test --workspace --all-targets --no-fail-fast $(ARGS)
	cargo test --workspace --doc $(ARGS)

.PHONY: e2e
e2e: ## End-to-end tests against a real control plane, built from source (or the cluster of KUBECONFIG)
	$(rust)
	if [ -z "$${KUBECONFIG:-}" ]; then tests/e2e/controlplane/build.sh helm metrics-server prometheus; fi
	cargo test --features e2e --test kustomize --test monitoring --test browser --test e2e --no-fail-fast -- --test-threads=1 $(ARGS)

.PHONY: bench
bench: ## Micro-benchmarks
	$(rust)
	cargo bench --workspace --bench '*' $(ARGS)

.PHONY: bench-load
bench-load: ## The server under load, over TLS
	$(rust)
	cargo build --release
	cargo run --release --example load -- $(ARGS)

.PHONY: bench-quota
bench-quota: ## Pods a second through the quota ledger, on a real control plane
	$(rust)
	if [ -z "$${KUBECONFIG:-}" ]; then tests/e2e/controlplane/build.sh; fi
	PLIMSOLL_E2E_LOAD=1 cargo test --release --features e2e --test e2e -- quota_load $(ARGS)

.PHONY: bench-histogram
bench-histogram: ## Usage of a million containers, and next to the histogram of the Vertical Pod Autoscaler
	$(rust)
	$(call need,go,install Go 1.26 or newer: https://go.dev/dl)
	mkdir -p target/bench
	cd benches/vpa && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -o ../../target/bench/vpa-histogram .
	cargo run --release --example scale -- --vpa target/bench/vpa-histogram $(ARGS)

.PHONY: lint
lint: ## Formatting and lints, warnings are errors
	$(rust)
	$(call need,cargo-fmt,rustup component add rustfmt)
	$(call need,cargo-clippy,rustup component add clippy)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings

.PHONY: fmt
fmt: ## Format the code
	$(rust)
	$(call need,cargo-fmt,rustup component add rustfmt)
	cargo fmt --all

.PHONY: deny
deny: ## Banned crates, licences, sources
	$(rust)
	cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
	cargo deny check bans licenses sources

.PHONY: docs
docs: ## API documentation in target/doc, warnings are errors
	$(rust)
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

.PHONY: certs
certs: ## A CA and a serving certificate in target/certs, for a trial
	$(rust)
	cargo run --quiet -- certs --dir target/certs --service plimsoll --namespace plimsoll-system

.PHONY: manifests
manifests: ## Write the CRDs anew from the Rust types
	$(rust)
	cargo run --quiet -- manifests crds > target/crds.yaml
	mv target/crds.yaml webhook-config/base/crds.yaml

.PHONY: image
image: ## The container image in target/image, without a container engine (PROFILE=release, TARGET=x86_64-unknown-linux-musl)
	$(rust)
	image/make.sh

.PHONY: image-check
image-check: ## Make the image and check what is in it (PROFILE=dev is quick, PROFILE=release is what ships)
	$(rust)
	image/check.sh

.PHONY: sbom
sbom: ## What is in the binary, with licences: target/image/sbom
	$(rust)
	image/sbom.sh target/image/sbom

.PHONY: fuzz-smoke
fuzz-smoke: ## Every fuzz target for FUZZ_SECONDS
	$(rust)
	FUZZ_SECONDS=$(FUZZ_SECONDS) .ci/fuzz-smoke

.PHONY: ci
ci: lint deny docs test image-check fuzz-smoke e2e ## What CI runs
