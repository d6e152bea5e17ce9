#!/usr/bin/env bash
# Debian packages that tests (chromium) and benchmarks (nginx, wrk, hey, h2load) use. As root on Debian it installs what is missing;
# elsewhere it says what is missing and what is left out because of it. Never fails: the tests report what they skip.
set -euo pipefail

declare -A PACKAGE=([chromium]=chromium [nginx]=nginx-light [wrk]=wrk [hey]=hey [h2load]=nghttp2-client)
declare -A FOR=([chromium]="the report's browser tests" [nginx]="make bench-peers" [wrk]="make bench-peers" [hey]="make bench-peers" [h2load]="make bench-peers")

wanted=()
for group in "${@:-test}"; do
  case "$group" in
    test) wanted+=(chromium) ;;
    bench) wanted+=(nginx wrk hey h2load) ;;
    *) echo "usage: tools/system-packages.sh [test] [bench]" >&2; exit 2 ;;
  esac
done

missing=()
for program in "${wanted[@]}"; do
  command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || missing+=("$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
  packages=()
  for program in "${missing[@]}"; do packages+=("${PACKAGE[$program]}"); done
  echo "towtank: installing Debian packages: ${packages[*]}" >&2
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 \
    || echo "towtank: could not install all of: ${packages[*]}" >&2
fi
for program in "${missing[@]}"; do
  command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] \
    || echo "towtank: $program is missing (Debian package ${PACKAGE[$program]}); left out: ${FOR[$program]}" >&2
done
