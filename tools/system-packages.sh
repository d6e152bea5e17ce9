#!/usr/bin/env bash
# Debian packages that tests (chromium, pdflatex, nginx, nghttpd, prometheus, netdata, sshd), functions (Go, Node.js, Java), apps/iot (MariaDB), apps/boutique (Go, protoc), benchmarks (nginx, wrk, hey, h2load), the testbed (containerd, etcd …) and storage backends (Ceph, NFS) use. As root on
# Debian it installs what is missing; elsewhere it says what is missing and what is left out because of it. Never fails: the tests
# report what they skip.
set -euo pipefail

declare -A PACKAGE=([chromium]=chromium [pdflatex]=texlive-latex-recommended [nginx]=nginx-light [wrk]=wrk [hey]=hey [h2load]=nghttp2-client [nghttpd]=nghttp2-server
  [prometheus]=prometheus [netdata]=netdata-core [sshd]=openssh-server [ssh]=openssh-client
  [containerd]=containerd [runc]=runc [etcd]=etcd-server [docker-registry]=docker-registry [iptables]=iptables
  [go]=golang-go [protoc]=protobuf-compiler [node]=nodejs [npm]=npm [mvn]=maven [javac]=default-jdk-headless
  [buildah]=buildah [/usr/lib/cni/ptp]=containernetworking-plugins [ip]=iproute2 [openssl]=openssl [cmake]=cmake [haproxy]=haproxy [mariadbd]=mariadb-server
  [ceph-mon]=ceph-mon [ceph-mgr]=ceph-mgr [ceph-osd]=ceph-osd [ceph-mds]=ceph-mds [ceph-fuse]=ceph-fuse [ganesha.nfsd]=nfs-ganesha [/usr/share/doc/nfs-ganesha-vfs]=nfs-ganesha-vfs
  [rpcbind]=rpcbind [/usr/include/nfsc/libnfs.h]=libnfs-dev [/usr/include/fuse3/fuse.h]=libfuse3-dev [pkg-config]=pkg-config [cc]=gcc [rclone]=rclone [php-fpm8.2]=php-fpm [/usr/share/dokuwiki]=dokuwiki)
declare -A FOR=([chromium]="the report's browser tests" [pdflatex]="the test that compiles a paper's tables and figures" [nginx]="the engine's HTTP/2 tests, make bench-peers" [nghttpd]="the engine's HTTP/2 tests" [prometheus]="telemetry's tests with a real Prometheus" [netdata]="telemetry's tests with a real Netdata" [sshd]="the tests of load by ssh" [ssh]="load by ssh" [buildah]="the test of engine/Dockerfile.prebuilt" [wrk]="make bench-peers" [hey]="make bench-peers" [h2load]="make bench-peers" [cmake]="the ingress of local deployments that scale" [haproxy]="make bench-peers" [mariadbd]="the tests of apps/iot on real servers")

wanted=()
for group in "${@:-test}"; do
  case "$group" in
    test) wanted+=(chromium pdflatex nginx nghttpd prometheus netdata ssh sshd) ;;
    images) wanted+=(buildah) ;;
    functions)
      functions=(go protoc node npm)
      wanted+=("${functions[@]}")
      for program in "${functions[@]}"; do FOR[$program]="apps/iot, apps/boutique, functions of apps/functions, and their tests"; done ;;
    java)
      wanted+=(javac mvn)
      for program in javac mvn; do FOR[$program]="functions of apps/functions in Java and their tests"; done ;;
    iot) wanted+=(mariadbd) ;;
    ingress) wanted+=(cmake) ;;
    bench) wanted+=(nginx haproxy wrk hey h2load cmake) ;;
    testbed)
      testbed=(containerd runc etcd docker-registry iptables /usr/lib/cni/ptp ip openssl)
      wanted+=("${testbed[@]}")
      for program in "${testbed[@]}"; do FOR[$program]="the Kubernetes testbed"; done ;;
    storage)
      storage=(ceph-mon ceph-mgr ceph-osd ceph-mds ceph-fuse ganesha.nfsd /usr/share/doc/nfs-ganesha-vfs rpcbind
        /usr/include/nfsc/libnfs.h /usr/include/fuse3/fuse.h pkg-config cc ip nginx rclone php-fpm8.2 /usr/share/dokuwiki)
      wanted+=("${storage[@]}")
      for program in "${storage[@]}"; do FOR[$program]="storage backends and applications of apps/storage and their tests"; done ;;
    *) echo "usage: tools/system-packages.sh [test] [functions] [java] [iot] [images] [ingress] [bench] [testbed] [storage]" >&2; exit 2 ;;
  esac
done

# A program, or for a library a file or folder of it.
present() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [[ "$1" == /* && -e "$1" ]]; }

missing=()
for program in "${wanted[@]}"; do present "$program" || missing+=("$program"); done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
  packages=()
  for program in "${missing[@]}"; do packages+=("${PACKAGE[$program]}"); done
  # The programs of these packages are wanted, not an nginx, an etcd or a containerd running on this machine.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
  fi
  echo "towtank: installing Debian packages: ${packages[*]}" >&2
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 \
    || echo "towtank: could not install all of: ${packages[*]}" >&2
fi
for program in "${missing[@]}"; do
  present "$program" \
    || echo "towtank: $program is missing (Debian package ${PACKAGE[$program]}); left out: ${FOR[$program]}" >&2
done
