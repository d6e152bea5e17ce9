#!/usr/bin/env bash
# Brings the jars of servers that the slow tests run, from Maven Central: `build.sh [kafka] [search]`; both without names. What is there stays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v mvn >/dev/null || { echo "iot: mvn is missing: install Maven and a JDK (Debian: maven, default-jdk-headless)" >&2; exit 1; }
[ $# -gt 0 ] || set -- kafka search
for server in "$@"; do
  [[ "$server" == kafka || "$server" == search ]] || { echo "iot: there is no server $server; known are kafka, search" >&2; exit 2; }
  mkdir -p "$server/build"
  (
    flock 9
    mark="$server/build/.built"
    [ -e "$mark" ] && [ -z "$(find build.sh "$server" -name build -prune -o -type f -newer "$mark" -print -quit)" ] && exit
    rm -rf "$server/build/jars"
    (cd "$server" && mvn --batch-mode --quiet package)
    touch "$mark"
  ) 9>"$server/build/.lock"
done
