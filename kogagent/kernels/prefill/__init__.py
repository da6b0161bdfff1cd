"""Many ids at once through the model: keys and values into the decode cache, logits where asked for."""

from kogagent.kernels.prefill.run import BUCKETS, Prefill, Wanted

__all__ = ["BUCKETS", "Prefill", "Wanted"]
