#!/bin/sh
# Smoke, parity and throughput on a machine with an NVIDIA GPU: one command, at most five minutes, no network.
#
#   tests/device/run.sh [OUT]
#
# Needs a Python 3.11 or newer with torch >= 2.11 of its own (PYTHON, default python3). The other packages are looked for
# in that Python first and then in tests/device/wheels, which `tests/device/pack.sh` fills on a machine with a network.
# Without a GPU it says so and ends with 0: skipped is not failed. DEVICE=cpu tries the script itself without a GPU.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$(dirname -- "$here")")
out=${1:-${OUT:-$root/device-results}}
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
export TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"

if [ "$device" = cuda ] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "SKIPPED: $python sees no CUDA device (no driver, no GPU, or no build of torch with CUDA)" | tee "$out/skipped.txt"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" "$here/needs.py" > "$work/lacking" || {
    if [ ! -d "$here/wheels" ]; then
        echo "FAILED: this Python lacks: $(tr '\n' ' ' < "$work/lacking"); run tests/device/pack.sh where there is a network"
        exit 1
    fi
    "$python" -m pip install --quiet --no-index --no-deps --target "$work/packages" "$here"/wheels/*.whl
}
export PYTHONPATH="$root:$work/packages"
"$python" "$here/seeded_model.py" "$work/model"
cat > "$work/server.yaml" <<YAML
apiVersion: canary/v1
kind: Server
model: {name: seeded, path: $work/model, format: sentence-transformers}
device: $device
catalogue: {batch: [1, 8], length: [16, 64]}
cache_dir: $work/cache
YAML
cd "$root"
timeout 280 "$python" -m server smoke --config "$work/server.yaml" --out "$out"
