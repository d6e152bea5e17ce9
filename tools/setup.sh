#!/usr/bin/env bash
# Makes .venv (pinned, hashed dependencies) or the release engine. Says in one line what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

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
    || { rm -rf .venv; "$python" -m venv .venv; }
  echo "towtank: installing pinned Python packages into .venv (once) …" >&2
  .venv/bin/python -m pip install --quiet --require-hashes -r constraints.txt
  .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
  touch .venv/.ready
}

make_engine() {
  command -v cargo >/dev/null 2>&1 || need "cargo (stable Rust ≥ $(rust_version)) is needed to build the load engine. Install Rust with rustup, or your distribution's cargo package if it is new enough"
  local have
  have=$(rustc --version 2>/dev/null | awk '{print $2}')
  [ "$(printf '%s\n%s\n' "$(rust_version)" "${have%%-*}" | sort -V | head -n 1)" = "$(rust_version)" ] \
    || need "Rust ≥ $(rust_version) is needed, found ${have:-none}. Run: rustup update stable"
  command -v cc >/dev/null 2>&1 || need "a C compiler is needed (the zstd library is C). Install gcc (Debian: apt-get install build-essential)"
  echo "towtank: building the load engine in release mode (a few minutes the first time) …" >&2
  cargo build --release --locked --quiet -p towtank-engine
  touch target/release/towtank-engine
}

rust_version() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

case "${1:-}" in
  venv) make_venv ;;
  engine) make_engine ;;
  *) need "usage: tools/setup.sh venv | engine" ;;
esac
