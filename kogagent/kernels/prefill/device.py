"""Triton kernels of pre-fill. Know rows, lanes and the decode cache; no model, no order of phases.

Every kernel reads its inputs' whereabouts from `meta`, int64 on the device, so that a captured graph serves
any sequence:

    0 address of the cache [N, 2, K, capacity, h]   1 capacity   2 position of row 0   3 rows that are real

Rows past `meta[3]` are padding of a bucket: they are computed, finite, and never reach the cache. tail: the
kernel works on the last real rows only, so that row t of its compact tensors is row meta[3] - 1 + t of the
others. Streams are [S, rows, D] FP32; activations have the weights' type; sums are FP32.
"""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _first_row(meta, tail: tl.constexpr):  # type: ignore[no-untyped-def]
    if tail:
        return tl.maximum(tl.load(meta + 3) - 1, 0).to(tl.int32)
    else:
        return 0


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def embed_rows(  # type: ignore[no-untyped-def]
    ids,
    table,
    streams,
    normed,
    eps,
    lanes: tl.constexpr,
    rows: tl.constexpr,
    dim: tl.constexpr,
    block: tl.constexpr,
):
    """Every lane's stream starts as the row of its id; normed too. Grid [T]."""
    t = tl.program_id(0)
    d = tl.arange(0, block)
    inside = d < dim
    x = tl.load(table + tl.load(ids + t).to(tl.int64) * dim + d, mask=inside, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / dim + eps)
    for lane in tl.static_range(lanes):
        at = (lane * rows + t) * dim + d
        tl.store(streams + at, x, mask=inside)
        tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def land(  # type: ignore[no-untyped-def]
    meta,
    streams,
    output,
    late,
    normed,
    own,
    others,
    late_own,
    late_others,
    eps,
    lanes: tl.constexpr,
    rows: tl.constexpr,
    output_rows: tl.constexpr,
    late_rows: tl.constexpr,
    dim: tl.constexpr,
    block: tl.constexpr,
    together: tl.constexpr,
    sums: tl.constexpr,
    has_late: tl.constexpr,
    late_sums: tl.constexpr,
    late_compact: tl.constexpr,
    tail: tl.constexpr,
):
    """What lands after one module, and the norm of the result. Grid [T, lanes / together].

    streams += own * output + others * (sum of the other lanes' output), the same of `late`; see
    params.STEP. output, late [S, output_rows, D]; late_compact: it has the tail's rows, not the body's.
    sums, late_sums: whether others and late_others are not zero.
    """
    t = tl.program_id(0)
    row = t + _first_row(meta, tail)
    late_row = row
    if late_compact:
        late_row = t
    d = tl.arange(0, block)
    inside = d < dim
    total = tl.zeros([block], tl.float32)
    if sums or late_sums:
        for lane in tl.static_range(lanes):
            if sums:
                at = (lane * output_rows + t) * dim + d
                total += others * tl.load(output + at, mask=inside, other=0.0).to(tl.float32)
            if late_sums:
                at = (lane * late_rows + late_row) * dim + d
                total += late_others * tl.load(late + at, mask=inside, other=0.0).to(tl.float32)
    for i in tl.static_range(together):
        lane = tl.program_id(1) * together + i
        at = (lane * rows + row) * dim + d
        from_output = (lane * output_rows + t) * dim + d
        x = tl.load(streams + at, mask=inside, other=0.0) + total
        x += (own - others) * tl.load(output + from_output, mask=inside, other=0.0).to(tl.float32)
        if has_late:
            from_late = (lane * late_rows + late_row) * dim + d
            x += (late_own - late_others) * tl.load(late + from_late, mask=inside, other=0.0).to(tl.float32)
        tl.store(streams + at, x, mask=inside)
        y = x * tl.rsqrt(tl.sum(x * x, 0) / dim + eps)
        tl.store(normed + from_output, y.to(normed.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def turn_and_append(  # type: ignore[no-untyped-def]
    meta,
    qkv,
    bias,
    weights,
    rope,
    queries,
    scale,
    eps,
    layer: tl.constexpr,
    lane_heads: tl.constexpr,
    heads: tl.constexpr,
    rep: tl.constexpr,
    h: tl.constexpr,
    rows: tl.constexpr,
    vectors: tl.constexpr,
    block: tl.constexpr,
    has_bias: tl.constexpr,
    has_norm: tl.constexpr,
):
    """Bias, norm and RoPE of one kv head's q and k; k and v into the cache. Grid [T, K].

    qkv [S, rows, R] FP32, R = for each kv head of a lane its q, its k, its v; queries [K, rows * rep, h],
    times `scale`. bias [N, S, R], weights [N, 2, h] FP32. vectors, block: rep + 2 and h as powers of two.
    """
    t = tl.program_id(0)
    head = tl.program_id(1)
    width: tl.constexpr = (rep + 2) * h
    lane = head // lane_heads
    inner = (head % lane_heads) * width
    v = tl.arange(0, vectors)[:, None]
    e = tl.arange(0, block)[None, :]
    inside = (v < rep + 2) & (e < h)
    x = tl.load(qkv + (lane * rows + t) * (lane_heads * width) + inner + v * h + e, mask=inside, other=0.0)
    if has_bias:
        x += tl.load(
            bias + (layer * (heads // lane_heads) + lane) * (lane_heads * width) + inner + v * h + e,
            mask=inside,
            other=0.0,
        )
    position = tl.load(meta + 2) + t
    y = x
    if has_norm:
        inverse = tl.rsqrt(tl.sum(x * x, 1) / h + eps)[:, None]
        which = tl.where(v < rep, 0, 1)
        y = x * inverse * tl.load(weights + (layer * 2 + which) * h + e, mask=e < h, other=0.0)
    even, odd = tl.split(tl.reshape(y, [vectors, block // 2, 2]))
    pair = tl.arange(0, block // 2)[None, :]
    angle = rope + position * h + 2 * pair
    cos = tl.load(angle, mask=pair < h // 2, other=0.0)
    sin = tl.load(angle + 1, mask=pair < h // 2, other=0.0)
    turned = tl.interleave(even * cos - odd * sin, even * sin + odd * cos)
    is_query = inside & (v < rep)
    to = queries + ((head * rows + t) * rep + v) * h + e
    tl.store(to, (turned * scale).to(queries.dtype.element_ty), mask=is_query)
    capacity = tl.load(meta + 1)
    cache = tl.multiple_of(tl.load(meta).to(queries.dtype), 16)
    kind = v - rep  # 0: the key, 1: the value
    at = (((layer * 2 + kind) * heads + head) * capacity + position) * h + e
    end = tl.where(t < tl.load(meta + 3), rep + 2, 0)  # a padding row appends nothing
    real = (v >= rep) & (v < end) & (e < h)
    tl.store(cache + at, tl.where(v == rep, turned, x).to(queries.dtype.element_ty), mask=real)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def attend(  # type: ignore[no-untyped-def]
    meta,
    queries,
    mixed,
    partial,
    sums,
    layer: tl.constexpr,
    lane_heads: tl.constexpr,
    heads: tl.constexpr,
    rep: tl.constexpr,
    h: tl.constexpr,
    low: tl.constexpr,
    high: tl.constexpr,
    rows: tl.constexpr,
    out_rows: tl.constexpr,
    count: tl.constexpr,
    window: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    splits: tl.constexpr,
    tail: tl.constexpr,
):
    """Attention of `count` tokens over the cache. Grid [ceil(count * rep / block_m), K, splits].

    A tile's rows are the tokens times the rep heads that share a kv head. A head is `low` columns, a power of
    two, and `high` more (0: none), so that one of 96 is not multiplied by padding. With one split the result
    goes to mixed [S, out_rows, heads of a lane * h]; else its parts to partial [splits, K, count * rep, h]
    and their log2 sums to sums [splits, K, count * rep], FP32.
    """
    head = tl.program_id(1)
    split = tl.program_id(2)
    first = _first_row(meta, tail)
    r = tl.program_id(0) * block_m + tl.arange(0, block_m)
    token = first + r // rep
    there = r < count * rep
    position = tl.load(meta + 2).to(tl.int32)
    real = tl.load(meta + 3).to(tl.int32)
    capacity = tl.load(meta + 1)
    e = tl.arange(0, low)
    from_q = queries + (head * rows * rep + first * rep + r)[:, None] * h
    q = tl.load(from_q + e[None, :], mask=there[:, None] & (e < h)[None, :], other=0.0)
    if high:
        e2 = low + tl.arange(0, high)
        q2 = tl.load(from_q + e2[None, :], mask=there[:, None] & (e2 < h)[None, :], other=0.0)
    begin = first + tl.program_id(0) * block_m // rep
    last = first + (tl.minimum(tl.program_id(0) * block_m + block_m, count * rep) - 1) // rep
    end = position + tl.minimum(last + 1, real)
    start = 0
    if window:
        start = tl.maximum(position + begin + 1 - window, 0) // block_n * block_n
    each = tl.cdiv(tl.cdiv(tl.maximum(end - start, 0), block_n), splits) * block_n
    start += split * each
    end = tl.minimum(end, start + each)
    cache = tl.multiple_of(tl.load(meta).to(queries.dtype), 16)
    keys = cache + ((layer * 2) * heads + head) * capacity * h
    values = cache + ((layer * 2 + 1) * heads + head) * capacity * h
    top = tl.full([block_m], float("-inf"), tl.float32)
    mass = tl.zeros([block_m], tl.float32)
    acc = tl.zeros([block_m, low], tl.float32)
    if high:
        acc2 = tl.zeros([block_m, high], tl.float32)
    for n0 in range(start, end, block_n):
        n = n0 + tl.arange(0, block_n)
        inside = n < end
        k = tl.load(keys + n[None, :] * h + e[:, None], mask=inside[None, :] & (e < h)[:, None], other=0.0)
        score = tl.dot(q, k)
        if high:
            k2 = tl.load(
                keys + n[None, :] * h + e2[:, None], mask=inside[None, :] & (e2 < h)[:, None], other=0.0
            )
            score = tl.dot(q2, k2, score)
        age = (position + token)[:, None] - n[None, :]
        visible = (age >= 0) & inside[None, :]
        if window:
            visible = visible & (age < window)
        score = tl.where(visible, score, float("-inf"))
        new = tl.maximum(top, tl.max(score, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)
        kept = tl.exp2(top - safe)
        weight = tl.exp2(score - safe[:, None])
        mass = mass * kept + tl.sum(weight, 1)
        weight = weight.to(queries.dtype.element_ty)
        v = tl.load(values + n[:, None] * h + e[None, :], mask=inside[:, None] & (e < h)[None, :], other=0.0)
        acc = tl.dot(weight, v, acc * kept[:, None])
        if high:
            v2 = tl.load(
                values + n[:, None] * h + e2[None, :], mask=inside[:, None] & (e2 < h)[None, :], other=0.0
            )
            acc2 = tl.dot(weight, v2, acc2 * kept[:, None])
        top = new
    safe_mass = tl.where(mass == 0.0, 1.0, mass)
    acc = acc / safe_mass[:, None]
    if high:
        acc2 = acc2 / safe_mass[:, None]
    if splits == 1:
        lane = head // lane_heads
        column = ((head % lane_heads) * rep + r % rep) * h
        to = mixed + ((lane * out_rows + r // rep) * (lane_heads * rep * h) + column)[:, None]
        tl.store(to + e[None, :], acc.to(queries.dtype.element_ty), mask=there[:, None] & (e < h)[None, :])
        if high:
            tl.store(
                to + e2[None, :], acc2.to(queries.dtype.element_ty), mask=there[:, None] & (e2 < h)[None, :]
            )
    else:
        at = (split * heads + head) * (count * rep) + r
        tl.store(sums + at, tl.where(mass == 0.0, float("-inf"), top + tl.log2(safe_mass)), mask=there)
        to = partial + at[:, None] * h
        tl.store(to + e[None, :], acc, mask=there[:, None] & (e < h)[None, :])
        if high:
            tl.store(to + e2[None, :], acc2, mask=there[:, None] & (e2 < h)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def merge_splits(  # type: ignore[no-untyped-def]
    partial,
    sums,
    mixed,
    lane_heads: tl.constexpr,
    heads: tl.constexpr,
    rep: tl.constexpr,
    h: tl.constexpr,
    block: tl.constexpr,
    out_rows: tl.constexpr,
    count: tl.constexpr,
    splits: tl.constexpr,
):
    """The parts of `attend` into mixed. Grid [count * rep, K]."""
    r = tl.program_id(0)
    head = tl.program_id(1)
    s = tl.arange(0, splits)
    e = tl.arange(0, block)
    at = (s * heads + head) * (count * rep) + r
    log = tl.load(sums + at)
    top = tl.max(log, 0)
    weight = tl.exp2(log - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(weight, 0)
    x = tl.load(partial + at[:, None] * h + e[None, :], mask=(e < h)[None, :], other=0.0)
    y = tl.sum(x * weight[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    lane = head // lane_heads
    column = ((head % lane_heads) * rep + r % rep) * h
    to = mixed + (lane * out_rows + r // rep) * (lane_heads * rep * h) + column + e
    tl.store(to, y.to(mixed.dtype.element_ty), mask=e < h)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def gate(both, hidden, rows: tl.constexpr, size: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """hidden [S, rows, size] = silu(gate) * up of both [S, rows, size, 2]. Grid [T, size / block, S]."""
    row = (tl.program_id(2) * rows + tl.program_id(0)).to(tl.int64)
    i = tl.program_id(1) * 2 * block + tl.arange(0, 2 * block)
    x = tl.load(both + row * (2 * size) + i, mask=i < 2 * size, other=0.0).to(tl.float32)
    g, u = tl.split(tl.reshape(x, [block, 2]))
    j = tl.program_id(1) * block + tl.arange(0, block)
    y = g / (1.0 + tl.exp(-g)) * u
    tl.store(hidden + row * size + j, y.to(hidden.dtype.element_ty), mask=j < size)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def multiply_few(  # type: ignore[no-untyped-def]
    x,
    w,
    out,
    x_rows: tl.constexpr,
    out_rows: tl.constexpr,
    count: tl.constexpr,
    size: tl.constexpr,
    columns: tl.constexpr,
    gated: tl.constexpr,
    block_n: tl.constexpr,
    block_t: tl.constexpr,
    block_k: tl.constexpr,
):
    """out [S, out_rows, size] = x [S, x_rows, columns] times w [S, size, columns] for few rows.

    Each program streams its weights once. gated: rows of w alternate gate and up, out [S, out_rows, size / 2]
    is silu(gate) * up. Grid [ceil(size / block_n), S].
    """
    lane = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    t = tl.arange(0, block_t)
    k = tl.arange(0, block_k)
    from_w = w + (lane * size + n)[:, None] * columns + k[None, :]
    from_x = x + (lane * x_rows + t)[None, :] * columns + k[:, None]
    acc = tl.zeros([block_n, block_t], tl.float32)
    for k0 in range(0, columns, block_k):
        inside = k0 + k < columns
        a = tl.load(
            from_w + k0,
            mask=(n < size)[:, None] & inside[None, :],
            other=0.0,
            eviction_policy="evict_first",
        )
        b = tl.load(from_x + k0, mask=(t < count)[None, :] & inside[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    if gated:
        g, u = tl.split(tl.permute(tl.reshape(acc, [block_n // 2, 2, block_t]), 0, 2, 1))
        y = g / (1.0 + tl.exp(-g)) * u
        m = tl.program_id(0) * (block_n // 2) + tl.arange(0, block_n // 2)
        to = out + (lane * out_rows + t)[:, None] * (size // 2) + m[None, :]
        tl.store(
            to, tl.trans(y).to(out.dtype.element_ty), mask=(t < count)[:, None] & (m < size // 2)[None, :]
        )
    else:
        to = out + (lane * out_rows + t)[:, None] * size + n[None, :]
        tl.store(to, tl.trans(acc).to(out.dtype.element_ty), mask=(t < count)[:, None] & (n < size)[None, :])
