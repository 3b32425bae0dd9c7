#!/bin/sh
# Fills tests/device/wheels with what run.sh needs besides torch, for a machine without a network. The model is not
# carried: it is made there from a seed.
#
#   tests/device/pack.sh [PYTHON_VERSION]     3.12 by default; Linux on x86-64
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
rm -rf "$here/wheels"
python3 -m pip download --quiet --only-binary=:all: --no-deps --dest "$here/wheels" \
    --python-version "${1:-3.12}" --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform any --requirement "$here/wheels.txt"
size=$(du -sm "$here/wheels" | cut -f1)
[ "$size" -le 64 ] || { echo "FAILED: $size MiB of wheels, at most 64 are carried"; exit 1; }
echo "$size MiB in $here/wheels"
