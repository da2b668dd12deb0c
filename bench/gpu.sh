#!/usr/bin/env bash
# What needs a GPU: health check, flash attention, and the MFU of an 8B-shaped model in bfloat16, compiled, in float8.
#
#   bench/gpu.sh [--json FILE] [--steps N]
#
# Exit statuses: 0 measured, 4 the health check found something, 69 there is no GPU here, others as the trainer's.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

"$python" -m bench.gpu --present || exit $?
"$python" -m trainer.launch --standalone --nproc-per-node 1 -m trainer.health
exec "$python" -m bench.gpu "$@"
