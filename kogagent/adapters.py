"""An engine as the model of other agent SDKs, in the same process. Knows their names; no tokens, no sockets.

Both speak OpenAI's protocol, so each adapter is `kogagent.serve.client` in the class the SDK wants. Importing
this module loads neither SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kogagent.errors import MissingExtraError
from kogagent.serve import client

if TYPE_CHECKING:
    from agents import OpenAIChatCompletionsModel
    from pydantic_ai.models.openai import OpenAIChatModel

    from kogagent.local import Engine

__all__ = ["openai_agents_model", "pydantic_ai_model"]


def pydantic_ai_model(engine: Engine, **options: Any) -> OpenAIChatModel:
    """A model for `pydantic_ai.Agent`. options as `kogagent.serve.client` has them.

    Output types are enforced by the grammar (`NativeOutput`, or tools). The engine stays the caller's to
    close. Raises MissingExtraError without pydantic-ai.
    """
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.profiles import ModelProfile
        from pydantic_ai.providers.openai import OpenAIProvider
    except ModuleNotFoundError as error:
        raise MissingExtraError("pydantic_ai_model", "pydantic-ai-slim[openai]", "pydantic-ai") from error
    profile = ModelProfile(supports_json_schema_output=True, supports_json_object_output=True)
    provider = OpenAIProvider(openai_client=client(engine, **options))
    return OpenAIChatModel(options.get("name") or engine.spec.name, provider=provider, profile=profile)


def openai_agents_model(engine: Engine, **options: Any) -> OpenAIChatCompletionsModel:
    """A model for `agents.Agent` of the OpenAI Agents SDK. options as `kogagent.serve.client` has them.

    The engine stays the caller's to close. Raises MissingExtraError without openai-agents.
    """
    try:
        from agents import OpenAIChatCompletionsModel
    except ModuleNotFoundError as error:
        raise MissingExtraError("openai_agents_model", "openai-agents", "openai-agents") from error
    name = options.get("name") or engine.spec.name
    return OpenAIChatCompletionsModel(name, openai_client=client(engine, **options))
