#!/usr/bin/env bash
# Installs the peers that `make bench-peers` measures beside the engine, from package registries only, each version pinned:
#   Debian      wrk, hey, h2load (nghttp2-client), nginx (as root; otherwise it says what is missing)
#   Go modules  k6, vegeta          crates  oha          PyPI  locust, in a virtual environment of its own
# Programs that tests use come the same way, from Go modules: toxiproxy-server (faults on edges), helm, kustomize.
# They go to .peers/ (git-ignored; TOWTANK_PEERS names another folder) and are not installed twice. What cannot be had is said
# and left out of the benchmarks; that is not a failure. wrk2 is in none of these registries, so it is not measured.
# With names (`tools/peers.sh k6 locust`) only these are installed.
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PEERS="$(realpath -m "${TOWTANK_PEERS:-$ROOT/.peers}")"
TOXIPROXY_VERSION="${TOXIPROXY_VERSION:-v2.12.0}"
K6_VERSION="${K6_VERSION:-v2.2.0}"
VEGETA_VERSION="${VEGETA_VERSION:-v12.13.0}"
HELM_VERSION="${HELM_VERSION:-v3.19.0}"
KUSTOMIZE_VERSION="${KUSTOMIZE_VERSION:-v5.7.1}"
OHA_VERSION="${OHA_VERSION:-1.16.0}"
LOCUST_VERSION="${LOCUST_VERSION:-2.47.0}"
JOBS="${PEERS_JOBS:-2}"
WANTED=("$@")

mkdir -p "$PEERS/bin" "$PEERS/log"

say() { echo "peers: $*" >&2; }

is_wanted() { [ ${#WANTED[@]} -eq 0 ] || [[ " ${WANTED[*]} " == *" $1 "* ]]; }

# once NAME VERSION COMMAND…: run COMMAND unless that version is there; a failure is said, with its last words
once() {
  local name="$1" version="$2" mark="$PEERS/$1.version"
  is_wanted "$name" || return 0
  shift 2
  [ -x "$PEERS/bin/$name" ] && [ "$(cat "$mark" 2>/dev/null)" = "$version" ] && return
  say "installing $name $version"
  if "$@" >"$PEERS/log/$name.log" 2>&1 && [ -x "$PEERS/bin/$name" ]; then
    echo "$version" >"$mark"
  else
    say "$name $version could not be installed and is left out: $(tail -n 1 "$PEERS/log/$name.log")"
  fi
}

# The module's own go.mod and go.sum decide what goes in, and no list of versions is asked for: not every proxy has one.
from_go() {
  command -v go >/dev/null || { echo "go is missing (Debian: golang-go)"; return 1; }
  local source="$PEERS/source/$1" unpacked
  unpacked="$(go mod download -json "$2" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')"
  [ -d "$unpacked" ] || { echo "the module $2 cannot be had"; return 1; }
  rm -rf "$source" && mkdir -p "$PEERS/source" && cp -r "$unpacked" "$source" && chmod -R u+w "$source" || return 1
  (cd "$source" && GOFLAGS="-p=$JOBS -buildvcs=false" nice -n 10 go build -o "$PEERS/bin/$1" "${3:-.}") || return 1
  rm -rf "$source"
}

from_crates() {
  command -v cargo >/dev/null || { echo "cargo is missing"; return 1; }
  nice -n 10 cargo install --quiet --locked --jobs "$JOBS" --root "$PEERS" "$1" --version "$2"
}

from_pypi() {
  python3 -m venv "$PEERS/$1" && nice -n 10 "$PEERS/$1/bin/pip" install --quiet "$1==$2" \
    && ln -sf "$PEERS/$1/bin/$1" "$PEERS/bin/$1"
}

[ ${#WANTED[@]} -gt 0 ] || "$ROOT/tools/system-packages.sh" bench
once locust "$LOCUST_VERSION" from_pypi locust "$LOCUST_VERSION"
once vegeta "$VEGETA_VERSION" from_go vegeta "github.com/tsenart/vegeta/v12@$VEGETA_VERSION"
once k6 "$K6_VERSION" from_go k6 "go.k6.io/k6/v2@$K6_VERSION"
once toxiproxy-server "$TOXIPROXY_VERSION" from_go toxiproxy-server "github.com/Shopify/toxiproxy/v2@$TOXIPROXY_VERSION" ./cmd/server
once helm "$HELM_VERSION" from_go helm "helm.sh/helm/v3@$HELM_VERSION" ./cmd/helm
once kustomize "$KUSTOMIZE_VERSION" from_go kustomize "sigs.k8s.io/kustomize/kustomize/v5@$KUSTOMIZE_VERSION"
once oha "$OHA_VERSION" from_crates oha "$OHA_VERSION"
