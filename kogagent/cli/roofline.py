"""`kogagent roofline`: what a model could decode at, from its shape alone. Knows arguments and a table."""

from __future__ import annotations

import dataclasses
import json as jsons
from typing import Annotated, Any

import typer

from kogagent.errors import InputError, KogagentError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("roofline")(roofline)


def roofline(
    model: Annotated[
        str,
        typer.Argument(
            help="laneformer-2b, a known name, a checkpoint, its config.json; none with --active."
        ),
    ] = "",
    devices: Annotated[int, typer.Option(help="Cards that share the model.", min=1)] = 1,
    card: Annotated[str, typer.Option(help="h200, h100, b200 or mi300x.")] = "h200",
    bandwidth: Annotated[float, typer.Option(help="Of a card, in TB/s, instead of --card's.", min=0)] = 0.0,
    precision: Annotated[
        str, typer.Option(help="Of the weights: fp16, bf16, fp8, int8, int4 or fp32.")
    ] = "fp16",
    context: Annotated[int, typer.Option(help="Positions in the cache.", min=0)] = 512,
    delay: Annotated[int, typer.Option(help="Delay in layers instead of the model's own.", min=-1)] = -1,
    link: Annotated[
        float, typer.Option(help="From a store on one card to its sight on another, in µs.", min=0)
    ] = 5.0,
    active: Annotated[
        float, typer.Option(help="Parameters read for a token, for a mixture of experts say.", min=0)
    ] = 0.0,
    layers: Annotated[int, typer.Option(help="With --active: how many.", min=0)] = 0,
    mbu: Annotated[
        float, typer.Option(help="Also: the rate at this share of the datasheet's bandwidth.", min=0, max=1)
    ] = 0.0,
    measured: Annotated[float, typer.Option(help="Also: the shares that this many tok/s are.", min=0)] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what a model's decoding at batch 1 can reach: bytes, floor, predicted tokens a second."""
    from kogagent.cli.commands import BAD_INPUT
    from kogagent.cli.live import report

    try:
        found = _found(
            model, devices, card, bandwidth, precision, context, delay, link, active, layers, mbu, measured
        )
    except (InputError, KogagentError) as error:
        report(error)
        raise typer.Exit(BAD_INPUT) from None
    print(jsons.dumps(found) if json else _table(found))  # noqa: T201


def _found(
    model: str, devices: int, card_name: str, bandwidth: float, precision: str, context: int, delay: int,
    link: float, active: float, layers: int, mbu: float, measured: float,
) -> dict[str, Any]:  # fmt: skip
    from kogagent.roofline import BYTES, CARDS, Card, Costs, Work, predict, work_of

    if precision not in BYTES:
        raise InputError(f"precision {precision!r} is none of {', '.join(BYTES)}")
    if card_name not in CARDS:
        raise InputError(f"card {card_name!r} is none of {', '.join(CARDS)}; or give --bandwidth")
    card = Card(f"{bandwidth:g} TB/s", bandwidth * 1e12) if bandwidth else CARDS[card_name]
    if bool(model) == bool(active):
        raise InputError("name a model, or give --active (and --layers), not both and not neither")
    if active:
        if not layers:
            raise InputError("--active needs --layers: exchanges are counted by the layer")
        if delay > 0:
            raise InputError("--delay changes a model's lanes; --active has none")
        work = Work(f"{active / 1e9:g}B active", active * BYTES[precision], 0.0, layers)
    else:
        if layers:
            raise InputError("--layers goes with --active; a model has its own")
        spec = _spec(model)
        if delay >= 0:
            spec = dataclasses.replace(spec, delay=delay, early="none", early_resent=False)
        work = work_of(spec, BYTES[precision], context)
    found = predict(work, card, devices, Costs(link=link))
    out: dict[str, Any] = {
        "model": work.name,
        "card": card.name,
        "devices": devices,
        "precision": precision,
        "context": 0 if active else context,
        "bytes_a_token": work.bytes,
        "weight_bytes": work.weight_bytes,
        "floor_us": found.floor,
        "exchange_us": found.exchanges,
        "link_us": found.links,
        "limit_tok_s": found.limit_tok_s,
        "predicted_tok_s": found.tok_s,
        "predicted_mbu": work.mbu(found.tok_s, card, devices),
    }
    if mbu:
        out["mbu"], out["tok_s_at_mbu"] = mbu, work.at_mbu(mbu, card, devices)
    if measured:
        out["measured_tok_s"], out["measured_mbu"] = measured, work.mbu(measured, card, devices)
        out["measured_share_of_limit"] = measured / found.limit_tok_s
    return out


def _spec(model: str) -> Any:
    from kogagent.spec import LANEFORMER_2B

    if model == LANEFORMER_2B.name:
        return LANEFORMER_2B
    from kogagent.engine.weights import read_spec
    from kogagent.local.names import find_model

    try:
        path = find_model(model)
    except InputError as error:
        raise InputError(f"{error}; a shape without weights is {LANEFORMER_2B.name!r}") from None
    return read_spec(path)


def _table(found: dict[str, Any]) -> str:
    many = f"{found['devices']} x " if found["devices"] > 1 else ""
    kv = found["bytes_a_token"] - found["weight_bytes"]
    lines = [
        f"{found['model']}, {found['precision']}, context {found['context']}, on {many}{found['card']}",
        f"bytes a token      {found['bytes_a_token'] / 1e9:9.3f} GB   (cache {kv / 1e6:.1f} MB)",
        f"floor              {found['floor_us']:9.1f} µs   {found['limit_tok_s']:,.0f} tok/s, the limit",
        f"exchanges          {found['exchange_us']:9.1f} µs   in a card",
        f"other cards        {found['link_us']:9.1f} µs   waited for",
        f"predicted          {found['floor_us'] + found['exchange_us'] + found['link_us']:9.1f} µs   "
        f"{found['predicted_tok_s']:,.0f} tok/s, {found['predicted_mbu']:.1%} of the datasheet's bandwidth",
    ]
    if "mbu" in found:
        lines.append(
            f"at {found['mbu']:.1%} of the datasheet's bandwidth: {found['tok_s_at_mbu']:,.0f} tok/s"
        )
    if "measured_tok_s" in found:
        lines.append(
            f"{found['measured_tok_s']:,.0f} tok/s are {found['measured_share_of_limit']:.1%} of the limit, "
            f"{found['measured_mbu']:.1%} of the datasheet's bandwidth"
        )
    return "\n".join(lines)
