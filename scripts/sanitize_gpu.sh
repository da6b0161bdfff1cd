#!/bin/bash
# Memory and race checks of the decode kernel and the pre-fill kernels on small models; needs a card and
# compute-sanitizer. Ends with an error when either tool finds anything.
#
#     scripts/sanitize_gpu.sh [PYTHON]
set -u
cd "$(dirname "$0")/.."
python=${1:-python3}
status=0
for tool in memcheck racecheck; do
    echo "== $tool"
    PYTHONPATH=$PWD compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 20 \
        "$python" scripts/sanitize_gpu.py || status=1
done
exit $status
