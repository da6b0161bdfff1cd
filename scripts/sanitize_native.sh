#!/bin/sh
# The CPU program under the address, undefined-behaviour and thread sanitizers. Needs g++ or clang++ (CXX).
set -eu
source=$(dirname "$0")/../kogagent/kernels/cpu/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in ${*:-address,undefined thread}; do
    echo "sanitizer: $kind"
    "${CXX:-g++}" -std=c++17 -O1 -g -pthread -fsanitize="$kind" -fno-sanitize-recover=all -w \
        "$source"/*.cpp "$source"/check.cc -o "$work/check"
    "$work/check"
done
