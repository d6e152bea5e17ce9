# Every recipe that people and CI use; `make help` lists them. All set-up happens by itself.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV   := .venv
PY     := $(VENV)/bin/python
ENGINE := target/release/towtank-engine
STATIC_ENGINE = target/$(shell rustc -vV | sed -n 's/^host: //p')/release/towtank-engine
PYTEST := $(PY) -m pytest
# Tests that measure nothing share the machine, more of them than it has cores, since many wait; the others are marked `alone`.
BESIDE := -n 3 --dist worksteal
# On a cluster most of a test is waiting for it.
BESIDE_CLUSTER := -n 6 --dist loadgroup

export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport CARGO_TARGET_DIR  # everything here looks for programs under target/

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# --- set-up ---------------------------------------------------------------------------------------------

$(VENV)/.ready: constraints.txt pyproject.toml tools/setup.sh
	tools/setup.sh venv

$(ENGINE): $(shell find engine/src engine/build.rs engine/Cargo.toml Cargo.toml Cargo.lock 2>/dev/null)
	tools/setup.sh engine

INGRESS := target/release/towtank-ingress
$(INGRESS): $(shell find ingress/src ingress/Cargo.toml engine/build.rs engine/src/build_info.rs Cargo.toml Cargo.lock 2>/dev/null)
	tools/system-packages.sh ingress
	tools/setup.sh ingress

setup: $(VENV)/.ready $(ENGINE) ## the virtual environment and the release engine

.PHONY: ingress
ingress: $(INGRESS) ## the ingress of local deployments that scale (`scaling:`): target/release/towtank-ingress

.PHONY: system-packages
system-packages: ## Debian packages that tests and benchmarks use (root only; otherwise says what is missing)
	tools/system-packages.sh test bench

.PHONY: functions
functions: $(VENV)/.ready ## apps/functions, each built with its language's own tool (RUNTIME=go for one)
	tools/system-packages.sh functions java
	PYTHON=$(CURDIR)/$(PY) apps/functions/build.sh $(RUNTIME)

.PHONY: iot
iot: ## apps/iot, the IoT platform: apps/iot/build/iot
	tools/system-packages.sh functions
	apps/iot/build.sh

.PHONY: engine-image
engine-image: setup ## the load engine, static, as an image for clusters: dist/towtank-engine_TAG.tar (TAG=dev)
	tools/setup.sh static-engine
	$(PY) -m testbed pack-engine $(STATIC_ENGINE) dist --tag $(or $(TAG),dev)

# --- the two commands -----------------------------------------------------------------------------------

.PHONY: quickstart
quickstart: setup ## run studies/quickstart and print its verdict and report
	@$(VENV)/bin/towtank run studies/quickstart/experiment.yaml || case $$? in \
	  5) echo "An SLO was missed (exit code 5): that is a result, not a failure of the quickstart." ;; \
	  6) echo "Something else kept the machine busy (exit code 6): the answer above leaves those runs out; \`make quickstart\` repeats just them." ;; \
	  *) exit 1 ;; esac

.PHONY: built built-rust peers
built: setup ingress built-rust testbed-build peers ## all that tests need; they have it made themselves, but with `make -j` it is made side by side

built-rust:
	cargo test --profile checks --quiet --no-run -p towtank-engine
	cargo test --profile checks --quiet --no-run -p towtank-ingress --no-default-features

peers:
	tools/peers.sh k6 locust toxiproxy-server

.PHONY: test test-rust test-python
test: test-rust test-python ## unit, contract, integration and a bounded statistical set; says what it left out

test-rust: setup
	tools/system-packages.sh test
	timeout 900 cargo test --profile checks --quiet -p towtank-engine
	timeout 300 cargo test --profile checks --quiet -p towtank-ingress --no-default-features

test-python: setup ingress
	tools/system-packages.sh test functions
	timeout 2100 $(PYTEST) $(BESIDE) tests apps -m "not alone and not slow and not kill and not cluster and not storage"
	timeout 1500 $(PYTEST) tests apps -m "alone and not slow and not kill and not cluster and not storage"
	$(MAKE) --no-print-directory testbed-build
	timeout 900 $(PYTEST) tests/cluster -m "smoke"

# --- tiers, each with a time budget ---------------------------------------------------------------------

.PHONY: test-stat test-kill test-slow test-storage test-cluster test-all
test-stat: setup ## whole simulated experiments: error rates, coverage, power (≤ 10 min)
	TOWTANK_STATISTICAL=full timeout 600 $(PYTEST) $(BESIDE) tests/statistical -m "statistical"

test-kill: setup ## kill -9 of everything at random moments, disk full, starved engine (≤ 10 min)
	timeout 600 $(PYTEST) $(BESIDE) tests/kill -m "kill and not alone"
	timeout 300 $(PYTEST) tests/kill -m "kill and alone"

test-slow: setup ingress peers ## what is too slow for `make test` (≤ 30 min)
	tools/system-packages.sh test functions java iot
	timeout 600 cargo test --profile checks --quiet -p towtank-engine -- --ignored
	PYTHON=$(CURDIR)/$(PY) apps/functions/build.sh
	timeout 1200 $(PYTEST) $(BESIDE) tests apps -m "slow and not alone and not kill and not statistical"
	timeout 1200 $(PYTEST) tests -m "slow and alone and not kill and not statistical"

test-cluster: setup ## tests/cluster on the testbed, or with KUBECONFIG on the context TOWTANK_CONTEXT (≤ 70 min)
	@[ -z "$${KUBECONFIG:-}" ] || [ -n "$${TOWTANK_CONTEXT:-}" ] || { echo "towtank: KUBECONFIG is set: name its context in TOWTANK_CONTEXT, or unset it to use the testbed" >&2; exit 1; }
	[ -n "$${TOWTANK_CONTEXT:-}" ] || $(MAKE) --no-print-directory testbed-build KNATIVE=1
	tools/system-packages.sh images functions java
	tools/peers.sh helm kustomize toxiproxy-server
	tools/setup.sh static-engine
	timeout 1500 $(PYTEST) $(BESIDE_CLUSTER) tests/cluster -m "cluster and not alone and not knative"
	timeout 2100 $(PYTEST) tests/cluster -m "cluster and alone"
	timeout 600 $(PYTEST) tests/cluster -m "knative"

test-storage: setup ## the real Ceph and NFS of apps/storage, as root; installs them: 0.5 GB (≤ 10 min)
	tools/system-packages.sh storage
	timeout 600 $(PYTEST) apps/storage -m "storage"

test-all: test test-stat test-kill test-slow test-storage test-cluster ## every tier

# --- the testbed: a real Kubernetes in namespaces of its own; docs/testbed.md ------------------------------

.PHONY: testbed-build testbed-up testbed-down
testbed-build: $(VENV)/.ready
	tools/system-packages.sh testbed
	$(PY) -m testbed build $(if $(KNATIVE),--knative) || [ $$? -eq 3 ]  # 3: not possible here, and it has said why

testbed-up: setup ## bring the testbed up (NODES=2 HPA_SYNC=5 METRICS=10 KWOK=1 KNATIVE=1: see docs/testbed.md); builds it the first time (minutes)
	tools/system-packages.sh testbed
	$(PY) -m testbed up $(NODES:%=--nodes %) $(HPA_SYNC:%=--hpa-sync %) $(METRICS:%=--metrics %) $(if $(KWOK),--kwok) $(if $(KNATIVE),--knative) \
	  $(INGRESS_CONNECTIONS:%=--ingress-connections %) $(INGRESS_PENDING:%=--ingress-pending %) $(INGRESS_REQUESTS:%=--ingress-requests %)

testbed-down: setup ## end it; nothing is left but programs, images and logs in .testbed/
	$(PY) -m testbed down

# --- care -----------------------------------------------------------------------------------------------

.PHONY: lint lint-python lint-rust fmt bench-peers docs clean messages constraints wheel
lint: setup lint-python lint-rust ## ruff, mypy strict, rustfmt, clippy: all as errors

lint-python: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

lint-rust:
	tools/system-packages.sh ingress
	cargo fmt --all --check
	cargo fmt --manifest-path apps/functions/rust/Cargo.toml --check
	cargo clippy --profile checks --all-targets --quiet -p towtank-engine -- -D warnings
	cargo clippy --profile checks --all-targets --quiet -p towtank-ingress -- -D warnings

fmt: setup ## write code the way lint wants it
	$(VENV)/bin/ruff check --fix-only --quiet .
	$(VENV)/bin/ruff format .
	cargo fmt --all

bench-peers: setup ## the engine beside its peers: installs them, measures (≤ 25 min), writes docs/benchmarks.md
	tools/peers.sh
	$(PY) -m benchmarks
	$(PY) tools/generate_docs.py

docs: setup ## pages that are generated from code
	$(PY) tools/generate_docs.py

messages: $(VENV)/.ready ## what reports say, from the code into the catalogues of translations
	$(PY) tools/messages.py

constraints: $(VENV)/.ready ## renew constraints.txt from pyproject.toml
	$(VENV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group dev --all-extras pyproject.toml -o constraints.txt

wheel: setup ## the distributions: towtank, towtank-engine and towtank-ingress
	$(VENV)/bin/python -m hatchling build -t wheel
	$(VENV)/bin/maturin build --release --locked -m engine/Cargo.toml --out dist
	$(VENV)/bin/maturin build --release --locked -m ingress/Cargo.toml --out dist

clean: ## everything that make made, except results
	@[ ! -e .testbed/state ] || { echo "towtank: the testbed is up; make testbed-down first" >&2; exit 1; }
	rm -rf $(VENV) target dist .testbed .mypy_cache .ruff_cache .pytest_cache
