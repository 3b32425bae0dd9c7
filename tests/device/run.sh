#!/bin/sh
# Smoke with parity, throughput at a p99 and the demo on a machine with an NVIDIA GPU: one command, no network, at most
# five minutes.
#
#   tests/device/run.sh [OUT]
#
# Needs a Python 3.11 or newer with torch >= 2.11 of its own (PYTHON, default python3). Everything else comes from
# tests/device/wheels, which `tests/device/pack.sh` fills on a machine with a network for that version of Python; without
# that folder, from the Python itself. Without a GPU it says so and ends with 0: skipped is not failed. OUT (default
# device-results) gets a folder for each step and summary.txt. DEVICE=cpu tries the script itself without a GPU; BUDGET_S
# gives it more time, P99_MS another limit.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$(dirname -- "$here")")
out=${1:-${OUT:-$root/device-results}}
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
budget_s=${BUDGET_S:-290}
began=$(date +%s)
export TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"
out=$(CDPATH= cd -- "$out" && pwd)
rm -rf "$out/smoke" "$out/throughput" "$out/demo" "$out/summary.txt"

say() { echo "$*" | tee -a "$out/summary.txt"; }

"$python" "$here/can_run.py" "$device" > "$out/reason.txt" 2>&1 || {
    say "SKIPPED: $python: $(tail -n 1 "$out/reason.txt")"
    exit 0
}
rm "$out/reason.txt"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ -d "$here/wheels" ]; then
    "$python" -m pip install --quiet --no-index --no-deps --target "$work/packages" "$here"/wheels/*.whl || {
        say "FAILED: the wheels do not install; pack them for this Python: tests/device/pack.sh VERSION"
        exit 1
    }
fi
export PYTHONPATH="$root:$work/packages"
"$python" "$here/needs.py" > "$work/lacking" || {
    say "FAILED: lacking: $(tr '\n' ' ' < "$work/lacking"); run tests/device/pack.sh where there is a network"
    exit 1
}
cd "$root"
"$python" "$here/seeded_model.py" "$work/seeded"

server() {  # FILE CATALOGUE
    cat > "$1" <<YAML
apiVersion: canary/v1
kind: Server
model: {name: seeded, path: $work/seeded, format: sentence-transformers}
device: $device
catalogue: $2
listen: {port: 0}
admin: {port: 0}
cache_dir: $work/cache
ports_file: $work/ports.json
YAML
}
server "$work/smoke.yaml" '{batch: [1, 8], length: [16, 64]}'
server "$work/serve.yaml" '{batch: [1, 4, 8], length: [16, 32, 64, 128]}'

failed=0
step() {  # NAME PERCENT COMMAND...: within this share of the budget and what is left of it
    name=$1 most=$((budget_s * $2 / 100))
    shift 2
    left=$((began + budget_s - $(date +%s)))
    [ "$left" -lt "$most" ] && most=$left
    if [ "$most" -lt 10 ]; then
        say "FAILED  $name: no time left of $budget_s s"
        failed=1
        return
    fi
    at=$(date +%s)
    mkdir -p "$out/$name"
    if timeout --kill-after 15 "$most" "$@" > "$out/$name/output.txt" 2>&1; then ended=0; else ended=$?; fi
    took=$(($(date +%s) - at))
    case $ended in
        0) say "passed  $name: $took s; $(tail -n 1 "$out/$name/output.txt")" ;;
        124 | 137) say "FAILED  $name: not done within $most s; $out/$name/output.txt" && failed=1 ;;
        *) say "FAILED  $name: exit code $ended after $took s; $out/$name/output.txt" && failed=1 ;;
    esac
}
step smoke 42 "$python" -m server smoke --config "$work/smoke.yaml" --out "$out/smoke"
step throughput 18 "$python" "$here/throughput.py" "$work/serve.yaml" "$work/ports.json" "$out/throughput" \
    "${P99_MS:-50}"
step demo 100 "$python" -m demo --baseline "$device" --candidate cpu --weights "$work/seeded" \
    --cache-dir "$work/cache" --results "$out/demo"
say "$([ "$failed" -eq 0 ] && echo PASSED || echo FAILED) on $device in $(($(date +%s) - began)) s"
exit "$failed"
