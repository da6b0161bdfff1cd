#!/bin/sh
# The CPU program's own check (src/check.cc), built and run in several ways, one or more of:
#   address,undefined  thread   under the sanitizers (these three are the default)
#   emulated                    with AVX-512, VNNI and BF16 by SIMDe (Debian's libsimde-dev)
#   aarch64                     for 64-bit Arm by qemu-user (g++-aarch64-linux-gnu, qemu-user-static)
# Needs g++ or clang++ (CXX).
set -eu
source=$(cd "$(dirname "$0")/../kogagent/kernels/cpu/src" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cores=$(getconf _NPROCESSORS_ONLN)
for kind in ${*:-address,undefined thread}; do
    echo "check: $kind"
    compiler=${CXX:-g++} options="-O1" run=""
    case $kind in
        emulated) options="-O2 -DKOG_EMULATED" ;;
        aarch64) compiler=aarch64-linux-gnu-g++ options="-O2 -static" run=qemu-aarch64-static ;;
        *) options="-O1 -g -fsanitize=$kind -fno-sanitize-recover=all" ;;
    esac
    rm -f "$work"/*.o
    ls "$source"/*.cpp "$source"/check.cc | xargs -P "$cores" -I{} sh -c \
        "$compiler -std=c++17 -pthread -w $options -c {} -o $work/\$(basename {}).o"
    "$compiler" -pthread $options "$work"/*.o -o "$work/check"
    $run "$work/check"
done
