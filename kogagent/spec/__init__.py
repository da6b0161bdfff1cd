"""What a model is and how it writes: shapes, vocabulary, call formats. Knows no weights and no device."""

from kogagent.spec.calls import (
    FUNCTION_GEMMA,
    HERMES,
    LFM2,
    LLAMA3_JSON,
    MISTRAL,
    PYTHONIC,
    QWEN3_CODER,
    SMOLLM2,
    CallFormat,
)
from kogagent.spec.model import LANEFORMER_2B, ModelSpec, RopeScaling
from kogagent.spec.values import JSON, ObjectStyle, ValueStyle
from kogagent.spec.vocabulary import Vocabulary

__all__ = [
    "FUNCTION_GEMMA",
    "HERMES",
    "JSON",
    "LANEFORMER_2B",
    "LFM2",
    "LLAMA3_JSON",
    "MISTRAL",
    "PYTHONIC",
    "QWEN3_CODER",
    "SMOLLM2",
    "CallFormat",
    "ModelSpec",
    "ObjectStyle",
    "RopeScaling",
    "ValueStyle",
    "Vocabulary",
]
