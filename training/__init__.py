"""How LaneFormer-nano is made: sources, data, tokenizer, trainer, evaluation, export. Knows the engine's
formats (spec, weights, chat template, call format); the engine never imports it."""
