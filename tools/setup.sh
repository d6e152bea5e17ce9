#!/usr/bin/env bash
# Makes .venv (pinned, hashed dependencies), the release engine, a static one for images, or the ingress. Says in one line what is missing, and every step with its
# progress.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/shown.sh

need() { echo "towtank: $1" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
    [ -n "$candidate" ] || continue
    command -v "$candidate" >/dev/null 2>&1 || continue
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  local found
  found=$(python3 --version 2>&1 || true)
  need "Python 3.11 or newer with venv is needed, found: ${found:-none}. Install python3.11 (or newer) and python3-venv, or set PYTHON=/path/to/python3.11"
}

make_venv() {
  local python
  python=$(find_python)
  [ -x .venv/bin/python ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    || { rm -rf .venv; shown "set-up 1 of 4: a virtual environment in .venv" "$python" -m venv .venv; }
  shown "set-up 2 of 4: $(grep -c '^[a-z].*==' constraints.txt) pinned Python packages into .venv (once, a minute or two)" \
    .venv/bin/python -m pip install --progress-bar off --require-hashes -r constraints.txt
  shown "set-up 3 of 4: towtank itself into .venv" \
    .venv/bin/python -m pip install --no-deps --no-build-isolation --no-index -e .
  touch .venv/.ready
}

# need_rust WHAT: what it takes to build WHAT
need_rust() {
  command -v cargo >/dev/null 2>&1 || need "cargo (stable Rust ≥ $(rust_version)) is needed to build $1. Install Rust with rustup, or your distribution's cargo package if it is new enough"
  local have
  have=$(rustc --version 2>/dev/null | awk '{print $2}')
  [ "$(printf '%s\n%s\n' "$(rust_version)" "${have%%-*}" | sort -V | head -n 1)" = "$(rust_version)" ] \
    || need "Rust ≥ $(rust_version) is needed, found ${have:-none}. Run: rustup update stable"
  command -v cc >/dev/null 2>&1 || need "a C compiler is needed (the zstd library is C). Install gcc (Debian: apt-get install build-essential)"
}

make_engine() {
  need_rust "the load engine"
  shown "set-up 4 of 4: the load engine in release mode (a few minutes the first time)" \
    cargo build --release --locked -p towtank-engine
  touch target/release/towtank-engine
}

make_ingress() {
  need_rust "the ingress"
  command -v cmake >/dev/null 2>&1 || need "cmake is needed to build the ingress (a zlib that pingora brings is built with it). Install cmake (Debian: apt-get install cmake)"
  shown "the ingress of local deployments that scale, in release mode (a few minutes the first time)" \
    cargo build --release --locked -p towtank-ingress
  touch target/release/towtank-ingress
}

# For images that hold nothing else. An explicit target keeps the flag from build scripts and procedural macros, and this
# build apart from the ordinary one.
make_static_engine() {
  command -v cargo >/dev/null 2>&1 || need "cargo (stable Rust ≥ $(rust_version)) is needed to build the load engine"
  local target
  target=$(rustc -vV | sed -n 's/^host: //p')
  [[ "$target" == *-linux-gnu ]] || need "a static engine is built on Linux with glibc, and this is $target"
  RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" shown "the load engine without libraries (a few minutes the first time)" \
    cargo build --release --locked -p towtank-engine --target "$target"
  touch "target/$target/release/towtank-engine"
}

rust_version() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

case "${1:-}" in
  venv) make_venv ;;
  engine) make_engine ;;
  static-engine) make_static_engine ;;
  ingress) make_ingress ;;
  *) need "usage: tools/setup.sh venv | engine | static-engine | ingress" ;;
esac
