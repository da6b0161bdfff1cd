"""Text to ids and back, byte for byte. Knows no messages, no models, no devices."""

from kogagent.tokenizer.decoder import Decoder
from kogagent.tokenizer.tokenizer import Tokenizer

__all__ = ["Decoder", "Tokenizer"]
