#!/usr/bin/env bash
# Builds build/boutique, static. What is built and current is left as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v go >/dev/null || { echo "boutique: go is missing: install Go 1.24 or newer, or any from 1.21 on, which fetches that (tools/system-packages.sh functions)" >&2; exit 1; }
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath" # as in the tests, so that packages are compiled once
go build -ldflags='-s -w' -o build/boutique .
