"""llama.cpp's OpenAI-style server, llama-cpp-python's own, in a Python that has it. Knows nothing of ours.

    python -m benchmarks.agent_loops.llama_server MODEL.gguf THREADS

"port" is answered with its port.
"""

from __future__ import annotations

import sys

from benchmarks.agent_loops.loopback import answer_port


def main() -> None:
    from llama_cpp.server.app import create_app  # type: ignore[import-not-found, unused-ignore]
    from llama_cpp.server.settings import (  # type: ignore[import-not-found, unused-ignore]
        ModelSettings,
        ServerSettings,
    )

    path, threads = sys.argv[1:]
    model = ModelSettings(
        model=path,
        model_alias="peer",
        n_ctx=0,
        n_threads=int(threads),
        n_threads_batch=int(threads),
        verbose=False,
    )
    answer_port(create_app(model_settings=[model], server_settings=ServerSettings()))


if __name__ == "__main__":
    main()
