"""csrc/grammar.cuh compiled for this machine, and a walk in it. Test support only."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from kogagent.engine.backends.device_grammar import DeviceGrammar, vocabulary_blob
from kogagent.kernels.build import SOURCE
from kogagent.kernels.params import GRAMMAR, RELAY


@cache
def program() -> ctypes.CDLL:
    """The shared library; compiled once."""
    source = Path(__file__).resolve().parent / "grammar_on_host.cpp"
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
    with TemporaryDirectory() as folder:
        out = Path(folder) / "grammar_on_host.so"
        (Path(folder) / "model.cuh").write_text("struct Model {};\n")  # the grammar needs no shapes
        subprocess.run(["g++", *flags, f"-I{SOURCE}", f"-I{folder}", str(source), "-o", str(out)], check=True)
        found = ctypes.CDLL(str(out))
    found.sizes.restype = ctypes.c_uint
    assert (found.sizes(0), found.sizes(1)) == (GRAMMAR.itemsize, RELAY.itemsize)
    return found


def verdicts(tables: npt.NDArray[np.void], at: npt.NDArray[np.void], size: int) -> npt.NDArray[np.uint32]:
    """What the device says of ids 0 .. size, from a configuration in a RELAY record."""
    out = np.full(size, 99, np.uint32)
    program().verdicts(
        *(ctypes.c_void_p(a.ctypes.data) for a in (tables, at)), 0, size, ctypes.c_void_p(out.ctypes.data)
    )
    return out


def take(tables: npt.NDArray[np.void], at: npt.NDArray[np.void], token: int) -> None:
    """Move a configuration past one legal id."""
    program().take_id(_pointer(tables), _pointer(at), token)


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Twin:
    """One walk on the device's arrays beside a matcher's."""

    def __init__(self, device: DeviceGrammar) -> None:
        tokens = vocabulary_blob(device.grammar.trie.vocabulary)
        assert tokens is not None
        self.device, self.tokens = device, tokens
        self.at = device.start(device.grammar.start()).copy()

    def _tables(self) -> npt.NDArray[np.void]:
        device = self.device
        fixed, learned, tokens = (
            blob.bytes.ctypes.data for blob in (device.fixed, device.learned, self.tokens)
        )
        return device.record(fixed, learned, tokens, self.tokens)

    def verdicts(self) -> npt.NDArray[np.uint32]:
        """Of all ids, and of some behind the vocabulary."""
        return verdicts(self._tables(), self.at, len(self.device.grammar.trie.vocabulary) + 70)

    def verdict(self, token: int) -> int:
        """Of one id."""
        out = np.zeros(1, np.uint32)
        program().verdicts(_pointer(self._tables()), _pointer(self.at), token, 1, _pointer(out))
        return int(out[0])

    def take(self, token: int) -> None:
        take(self._tables(), self.at, token)
