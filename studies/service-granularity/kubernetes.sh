#!/usr/bin/env bash
# kubernetes.sh NODE1 NODE2 IMAGE [REPLICAS]: the placements as objects of Kubernetes, in kubernetes/, for two nodes of a cluster of yours.
# Those of the testbed are committed: kubernetes.sh node1 node2 registry.testbed/boutique:1
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
boutique="$here/../../apps/boutique"
mkdir -p "$here/kubernetes"
for placement in "$boutique"/placements/*.toml; do
  name="$(basename "$placement" .toml)"
  nodes=(-node "1=$1")
  [[ "$name" != two-machines-* ]] || nodes+=(-node "2=$2")
  "$boutique/build/boutique" manifests "$placement" "${nodes[@]}" -image "$3" -replicas "${4:-1}" > "$here/kubernetes/$name-${4:-1}.yaml"
done
