#!/usr/bin/env bash
# Builds functions, each with its language's own tool and from its lock file: `build.sh [RUNTIME…]`, all of them without names. What is
# built is not built again. Everything made goes to RUNTIME/build (and typescript/node_modules). PYTHON names the interpreter for `python`.
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
KNOWN=(go python typescript rust quarkus springboot)

fail() { echo "functions: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "$1 is missing: $2"; }

build_go() {
  need go "install Go 1.21 or newer (Debian: golang-go)"
  CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -ldflags='-s -w' -o build/function .
}

build_python() {
  rm -rf build/site
  "${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target build/site -r requirements.txt
}

build_typescript() {
  need npm "install Node.js 20 or newer with npm (Debian: nodejs, npm)"
  npm ci --ignore-scripts --silent
  npm run --silent build
}

build_rust() {
  need cargo "install Rust 1.89 or newer"
  cargo build --release --locked --quiet --target-dir build/target
  cp build/target/release/function build/function
}

build_quarkus() { build_java; }
build_springboot() {
  build_java
  # As a folder, the way its own documents have it for images: it starts sooner than from within one jar.
  rm -rf build/unpacked && java -Djarmode=tools -jar build/function.jar extract --destination build/unpacked
}

build_java() {
  need mvn "install Maven and a JDK (Debian: maven, default-jdk-headless)"
  mvn --batch-mode --quiet package
}

# Not a function: Java's runtime with the modules that both functions in Java need, for their images; with a class-data archive, as a JDK has it.
build_jre() {
  need jlink "install a JDK (Debian: default-jdk-headless)"
  rm -rf build/runtime
  jlink --add-modules "$(paste -sd, modules.txt)" --strip-java-debug-attributes --no-header-files --no-man-pages --output build/runtime
  build/runtime/bin/java -Xshare:dump >/dev/null
}

# is_current RUNTIME: nothing of it is newer than what was built, nor was it built by another tool
is_current() {
  local mark="$1/build/.built"
  [ -e "$mark" ] && [ "$(cat "$mark")" = "$(made_with "$1")" ] || return 1
  local sources=("$1" build.sh)
  [[ "$1" == quarkus || "$1" == springboot ]] && sources+=(java)
  [ -z "$(find "${sources[@]}" \( -name build -o -name node_modules -o -name __pycache__ \) -prune -o -type f -newer "$mark" -print -quit)" ]
}

made_with() {
  case "$1" in
    go) go version ;;
    python) "${PYTHON:-python3}" -c 'import sys; print(sys.version, sys.executable)' ;;
    typescript) node --version ;;
    rust) rustc --version ;;
    quarkus | springboot | jre) java -version 2>&1 ;;
  esac 2>/dev/null || true
}

cd "$HERE"
[ $# -gt 0 ] || set -- "${KNOWN[@]}"
for runtime in "$@"; do
  [[ " ${KNOWN[*]} jre " == *" $runtime "* ]] || fail "there is no runtime $runtime; known are ${KNOWN[*]}"
  mkdir -p "$runtime/build"
  ( # one build of a runtime at a time, whoever asks for it
    flock 9
    is_current "$runtime" && exit
    echo "functions: building $runtime" >&2
    begun=$SECONDS
    rm -f "$runtime/build/.built"
    touch "$runtime/build/.begun"
    (cd "$runtime" && "build_$runtime")
    made_with "$runtime" >"$runtime/build/.begun.with"
    mv "$runtime/build/.begun.with" "$runtime/build/.built"
    touch -r "$runtime/build/.begun" "$runtime/build/.built" # a source that was changed meanwhile counts as newer
    echo "functions: $runtime was built in $((SECONDS - begun)) s" >&2
  ) 9>"$runtime/build/.lock"
done
