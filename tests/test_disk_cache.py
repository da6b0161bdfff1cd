"""The cache on disk: found as it was written or not at all, in bounds, nobody else's."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kogagent import disk_cache
from kogagent.disk_cache import Damaged, DiskCache, cache_folder
from kogagent.errors import InputError


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite sets one that keeps nothing."""
    monkeypatch.delenv("KOGAGENT_CACHE_BYTES")


def _parts(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "numbers": rng.integers(0, 1 << 30, int(rng.integers(1, 40_000)), dtype=np.uint32),
        "strided": rng.standard_normal((3, 50, 7)).astype(np.float16)[:, : int(rng.integers(1, 50))],
        "bytes": np.frombuffer(rng.bytes(int(rng.integers(1, 100))), np.uint8),
        "none": np.zeros((0, 4), np.float32),
    }


def _same(found: disk_cache.Found | None, parts: dict[str, Any], meta: dict[str, Any]) -> None:
    assert found is not None
    assert found.meta == meta
    for name, array in parts.items():
        assert found.part(name).dtype == array.dtype
        np.testing.assert_array_equal(found.part(name), array)
        np.testing.assert_array_equal(found.peek(name), array)


def test_what_was_put_is_found_and_nothing_else(tmp_path: Path, rng: np.random.Generator) -> None:
    disk, parts, meta = DiskCache(tmp_path / "a" / "b"), _parts(rng), {"ids": [1, 2], "text": "Löß"}
    assert disk.find("thing", "key") is None
    path = disk.put("thing", "key", meta, parts)
    assert path is not None
    _same(disk.find("thing", "key"), parts, meta)
    assert disk.find("thing", "ke") is None
    assert disk.find("other", "key") is None
    assert [found.path for found in disk.find_all("thing", "ke")] == [path]
    assert list(disk.find_all("thing", "x")) == []
    with pytest.raises(Damaged, match="no part"):
        next(disk.find_all("thing", "k")).peek("missing")
    again = _parts(rng)
    assert disk.put("thing", "key", {}, again) == path  # in place of the first
    _same(disk.find("thing", "key"), again, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_every_kind_of_damage_is_seen_and_the_file_removed(tmp_path: Path, rng: np.random.Generator) -> None:
    disk, parts = DiskCache(tmp_path), _parts(rng)
    path = disk.put("thing", "key", {}, parts)
    assert path is not None
    whole = path.read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    told = json.loads(whole[48 : 48 + length])["parts"]
    inside = [told[n]["start"] + int(rng.integers(parts[n].nbytes)) for n in ("numbers", "strided", "bytes")]

    def flipped(*places: int) -> bytes:
        data = bytearray(whole)
        for place in places:
            data[place] ^= 1 << int(rng.integers(8))
        return bytes(data)

    page = told["numbers"]["start"]
    damage = {
        "empty": b"",
        "shorter than a header": whole[:20],
        "cut in the header": whole[: 48 + length // 2],
        "cut in the data": whole[: -int(rng.integers(1, 4096))],
        "longer": whole + b"\0",
        "of another program": b"KOGKEPT9" + whole[8:],
        "a header without end": whole[:8] + (1 << 40).to_bytes(8, "little") + whole[16:],
        "another header": flipped(48 + int(rng.integers(length))),
        "another sum of the header": flipped(16 + int(rng.integers(32))),
        "a page never written": whole[:page]
        + bytes(min(4096, parts["numbers"].nbytes))
        + whole[page + min(4096, parts["numbers"].nbytes) :],
    } | {f"a bit at {place}": flipped(place) for place in inside}
    for what, data in damage.items():
        path.write_bytes(data)
        assert disk.find("thing", "key") is None, what
        assert not path.exists(), what
    path.write_bytes(whole)
    _same(disk.find("thing", "key"), parts, {})
    path.rename(tmp_path / "thing-other.kept")
    assert disk.find("thing", "other") is None  # it is the file of another key


def test_blocks_that_changed_places_are_seen(tmp_path: Path, rng: np.random.Generator) -> None:
    disk = DiskCache(tmp_path)
    data = rng.integers(0, 1 << 60, 8192 * 4, dtype=np.uint64)
    path = disk.put("thing", "key", {}, {"data": data})
    assert path is not None
    file = bytearray(path.read_bytes())
    at = len(file) - data.nbytes
    size = 8192 * 8
    file[at : at + 2 * size] = file[at + size : at + 2 * size] + file[at : at + size]
    path.write_bytes(file)
    assert disk.find("thing", "key") is None


def test_the_oldest_make_room_and_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, limit=40_000)
    data = {"data": np.arange(2000, dtype=np.float32)}  # 8,000 bytes and a header: 12,288
    for number, key in enumerate("abc"):
        path = disk.put("thing", key, {}, data)
        assert path is not None
        os.utime(path, (1000 + number, 1000 + number))
    assert disk.find("thing", "a") is not None  # of use now: b is the oldest
    assert disk.put("thing", "d", {}, data) is not None
    assert sorted(e.path.name for e in disk.entries()) == [f"thing-{k}.kept" for k in "acd"]
    assert sum(entry.size for entry in disk.entries()) <= disk.limit
    assert disk.put("thing", "e", {}, {"data": np.zeros(20_000, np.float32)}) is None
    assert len(disk.entries()) == 3
    assert {entry.kind for entry in disk.entries()} == {"thing"}
    (tmp_path / "left.tmp").write_bytes(b"x")
    assert disk.clear() == 3 * 12_288
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_the_users_alone_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DiskCache(tmp_path)
    path = disk.put("thing", "key", {}, {"data": np.arange(9)})
    assert path is not None
    path.chmod(0o620)
    assert disk.find("thing", "key") is None
    path.chmod(0o600)
    assert disk.find("thing", "key") is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert disk.find("thing", "key") is None
    assert path.exists()


def test_a_folder_that_cannot_be_used_keeps_nothing_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    disk = DiskCache(tmp_path / "file" / "folder")
    assert disk.put("thing", "key", {}, {"data": np.arange(9)}) is None
    assert disk.find("thing", "key") is None
    assert disk.entries() == []
    assert disk.clear() == 0


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DiskCache(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
    assert disk.put("thing", "key", {}, {"data": np.arange(9)}) is None
    assert list(tmp_path.iterdir()) == []


def test_the_environment_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KOGAGENT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == tmp_path / "home" / ".cache" / "kogagent"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == tmp_path / "home" / ".cache" / "kogagent"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "kogagent"
    assert DiskCache().on
    assert 0 <= DiskCache().limit <= 16 << 30
    monkeypatch.setenv("KOGAGENT_CACHE", str(tmp_path / "own"))
    assert DiskCache().folder == tmp_path / "own"
    monkeypatch.setenv("KOGAGENT_CACHE_BYTES", "0")
    off = DiskCache()
    assert not off.on
    assert off.put("thing", "key", {}, {"data": np.arange(9)}) is None
    assert not (tmp_path / "own").exists()
    monkeypatch.setenv("KOGAGENT_CACHE_BYTES", "12345")
    assert DiskCache().limit == 12345
    for wrong in ("-1", "much", "1e9"):
        monkeypatch.setenv("KOGAGENT_CACHE_BYTES", wrong)
        with pytest.raises(InputError, match=r"KOGAGENT_CACHE_BYTES.*number of bytes"):
            DiskCache()
    with pytest.raises(InputError, match="limit"):
        DiskCache(limit=-1)


def test_importing_it_loads_no_numpy() -> None:
    code = "import sys, kogagent.disk_cache; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
