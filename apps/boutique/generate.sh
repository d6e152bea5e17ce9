#!/usr/bin/env bash
# Writes internal/shop again from proto/shop.proto: messages, ConnectRPC clients and handlers, and edges. What is generated is committed;
# this is needed when the .proto changes. It needs protoc (Debian: protobuf-compiler); its plug-ins come with go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v protoc >/dev/null || { echo "boutique: protoc is missing: install it (Debian: protobuf-compiler)" >&2; exit 1; }
out=${1:-.}
mkdir -p build/plugins "$out"
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
go build -o build/plugins/ google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go ./cmd/protoc-gen-edges
module=towtank.example/boutique
PATH="$PWD/build/plugins:$PATH" protoc -I proto \
  --go_out="$out" --go_opt=module=$module \
  --connect-go_out="$out" --connect-go_opt=module=$module,simple \
  --edges_out="$out" --edges_opt=module=$module \
  proto/shop.proto
gofmt -w "$out/internal/shop"
