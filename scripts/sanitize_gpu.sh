#!/bin/bash
# Memory and race checks of the decode kernel, and memory checks of pre-fill, on small models; needs a card and
# compute-sanitizer. Fails for any memory error, and for hazards that scripts/race_report.py does not know to be
# ordered. Runs have 100 and 300 seconds: a checker makes the card a thousand times slower.
#
#     scripts/sanitize_gpu.sh [PYTHON]
set -u
cd "$(dirname "$0")/.."
python=${1:-python3}
export PYTHONPATH=$PWD PYTHONUNBUFFERED=1
status=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "== memcheck"
timeout 100 compute-sanitizer --tool memcheck --error-exitcode 9 --print-limit 20 \
    "$python" scripts/sanitize_gpu.py prefill decode || status=1
echo "== racecheck"
timeout 300 compute-sanitizer --tool racecheck --racecheck-report all --error-exitcode 0 --print-limit 5000 \
    "$python" scripts/sanitize_gpu.py decode >"$log" 2>&1 || { tail -20 "$log"; status=1; }
"$python" scripts/race_report.py "$log" || status=1
exit $status
