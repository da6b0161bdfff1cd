#!/bin/bash
# All that needs a card, in the order in which it says most, in stages of at most ten minutes each:
#
#     scripts/on_cards.sh tests     tests/gpu and the sanitizers; decode, phases, grammars, a lane alone
#     scripts/on_cards.sh lanes     two cards: the tests over both, then everything of benchmarks.lanes
#     scripts/on_cards.sh variants  what knobs of the kernel gain: copies in flight, stages, looks at words
#     scripts/on_cards.sh loops     agent loops; one card as 2, 4 and 8 devices
#
# With two cards the halves of tests, variants and loops, split by ";" above, run side by side, a card each; with one, one
# after the other. Every step has its own time and ends with what it started; the next one runs whatever became of it.
# OUT (build/cards): a log a half and what was recorded. PYTHON (python3). DRY=1 only prints the commands.
set -u
cd "$(dirname "$0")/.."
stage=${1:?tests, lanes, variants or loops}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 KOGAGENT_REQUIRE_GPU=1
out=${OUT:-build/cards} python=${PYTHON:-python3}
mkdir -p "$out" benchmarks/results
cards=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)

# step SECONDS COMMAND...: one command in its time
step() {
    local seconds=$1 began=$SECONDS
    shift
    echo "== $* ($seconds s at most)"
    [ -n "${DRY:-}" ] && return
    timeout -k 5 "$seconds" "$@"
    echo "== rc $? after $((SECONDS - began)) s"
}
# A warning of this machine's packages is shown and fails nothing; a test that hangs is ended where that can be done.
pytest=("$python" -m pytest -c tests/gpu/without_plugins.ini --rootdir . --confcutdir . -v -W default --durations=15)
"$python" -c "import pytest_timeout" 2>/dev/null && pytest+=(--timeout=90)
# half NUMBER FUNCTION: on a card of its own, into a log of its own
half() {
    local number=$1
    [ "$cards" -gt 1 ] && export CUDA_VISIBLE_DEVICES=$number
    "$2" >"$out/$stage-$number.log" 2>&1
    echo "$stage, half $number: $(grep -c '^== rc 0 ' "$out/$stage-$number.log") of $(grep -c '^== [^r]' "$out/$stage-$number.log") steps ended well"
}
halves() {
    if [ "$cards" -gt 1 ]; then
        (half 0 "$1") & (half 1 "$2") &
        wait
    else
        (half 0 "$1")
        (half 1 "$2")
    fi
}

verify() {
    export KOGAGENT_GPU_SECONDS=150
    step 170 "${pytest[@]}" tests/gpu
    step 400 scripts/sanitize_gpu.sh "$python"
}
decode() {
    step 330 "$python" -m benchmarks.decode_cuda --gaps 8000 --peers torch.compile --peer-seconds 190
    step 25 "$python" -m benchmarks.phases
    step 40 "$python" -m benchmarks.grammar_cuda --tokenizer kogagent/models/laneformer-nano --repeats 9
    step 45 "$python" -m benchmarks.prefill
    step 120 "$python" -m benchmarks.lanes --part cards alone link --seconds 115
}
over_two() {
    step 90 "${pytest[@]}" tests/gpu/test_gpu_lanes.py
    step 490 "$python" -m benchmarks.lanes --devices 2 --seconds 485
}
wide_models() {
    step 290 "$python" -m benchmarks.variants --shape laneformer-2b "lane alone" llama-2-7b
}
narrow_models() {
    step 290 "$python" -m benchmarks.variants --shape qwen3-0.6b llama-3.2-1b smollm2-135m
}
loops() {
    step 570 "$python" -m benchmarks.agent_loops --model random:laneformer-2b laneformer-nano --seconds 540
}
virtual() {
    step 570 "$python" -m benchmarks.lanes --virtual --part bits slack rates tensor --seconds 560
}

case $stage in
tests) halves verify decode ;;
lanes) [ "$cards" -gt 1 ] || [ -n "${DRY:-}" ] || { echo "the stage lanes needs two cards"; exit 2; }
    over_two >"$out/lanes.log" 2>&1 ;;
variants) halves wide_models narrow_models ;;
loops) halves loops virtual ;;
*) echo "unknown stage '$stage': choose tests, lanes, variants or loops"; exit 2 ;;
esac
tar czf "$out/$stage-results.tar.gz" -C benchmarks results
