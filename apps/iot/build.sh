#!/usr/bin/env bash
# Builds the program, static, as build/iot; or tests it: `build.sh test`. Both with the same flags, so that libraries are compiled once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v go >/dev/null || { echo "iot: go is missing: install Go 1.24 or newer (Debian: golang-go)" >&2; exit 1; }
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

mkdir -p build
exec 9>build/.lock
flock 9 # one at a time, whoever asks for it
case "${1:-program}" in
  program) go build -ldflags='-s -w' -o build/iot . ;;
  test)
    unformatted="$(gofmt -l .)"
    [ -z "$unformatted" ] || { echo "iot: gofmt would change these: $unformatted" >&2; exit 1; }
    go vet ./...
    go test -vet=off ./... ;;
  *) echo "usage: apps/iot/build.sh [program | test]" >&2; exit 2 ;;
esac
