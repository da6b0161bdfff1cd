"""Triton kernels of pre-fill. Know rows, lanes and the decode cache; no model, no order of phases.

Every kernel reads where things are from `meta`, int64 on the device, so that a captured graph serves any
sequence:

    0 address of the cache [N, 2, K, capacity, h]   1 capacity   2 position of row 0   3 rows that are real

Rows past `meta[3]` are padding of a bucket: they are computed, finite, and never reach the cache. tail: the
kernel works on the last real row alone, which is row 0 of its compact tensors and row meta[3] - 1 of the
others. Activations have the weights' type; sums are FP32.

A lane's stream X [S, rows, D] is FP32, or, `factored`, what the next product reads anyway and a number a row:
X = normed * rms, rounded to the activations' type at each landing. `streams` are then the body's normed rows.

What differs between models, layers and buckets is an argument, not a constant, wherever speed allows: a model
compiles a dozen small programs, and most models the same ones.
"""

import functools

import triton
import triton.language as tl

_UNSPECIALIZED = [
    "layer",
    "count",
    "splits",
    "tail",
    "late_compact",
    "window",
    "rows",
    "late_rows",
    "output_rows",
]
_kernel = functools.partial(triton.jit, do_not_specialize=_UNSPECIALIZED)


@_kernel
def embed_rows(  # type: ignore[no-untyped-def]
    ids, table, streams, rms, normed, rows, dim, lanes, eps, block: tl.constexpr, factored: tl.constexpr
):
    """Every lane's stream starts as the row of its id; normed too. Grid [T, S]."""
    t = tl.program_id(0)
    d = tl.arange(0, block)
    inside = d < dim
    x = tl.load(table + tl.load(ids + t).to(tl.int64) * dim + d, mask=inside, other=0.0).to(tl.float32)
    square = tl.sum(x * x, 0) / dim + eps
    row = tl.program_id(1) * rows + t
    if factored:
        tl.store(rms + row, tl.sqrt(square))
    else:
        tl.store(streams + row * dim + d, x, mask=inside)
    tl.store(normed + row * dim + d, (x * tl.rsqrt(square)).to(normed.dtype.element_ty), mask=inside)


@_kernel
def _lane(  # type: ignore[no-untyped-def]
    streams,
    rms,
    output,
    late,
    lane,
    place,
    inside,
    block: tl.constexpr,
    has_late: tl.constexpr,
    factored: tl.constexpr,
):
    """One lane's part of a row, as it lies there: its stream, what that is to be multiplied by, what the
    module has put out, and what an earlier one had."""
    row, t, late_row, rows, output_rows, late_rows, dim = place
    d = tl.arange(0, block)
    x = tl.load(streams + (lane * rows + row) * dim + d, mask=inside, other=0.0)
    o = tl.load(output + (lane * output_rows + t) * dim + d, mask=inside, other=0.0)
    size = 1.0
    if factored:
        size = tl.load(rms + lane * rows + row)
    p = o
    if has_late:
        p = tl.load(late + (lane * late_rows + late_row) * dim + d, mask=inside, other=0.0)
    return x, size, o, p


@_kernel
def land(  # type: ignore[no-untyped-def]
    meta,
    streams,
    rms,
    output,
    late,
    normed,
    weights,
    own,
    others,
    late_own,
    late_others,
    eps,
    rows,
    output_rows,
    late_rows,
    late_compact,
    tail,
    dim,
    lanes: tl.constexpr,
    together: tl.constexpr,
    block: tl.constexpr,
    sums: tl.constexpr,
    has_late: tl.constexpr,
    late_sums: tl.constexpr,
    factored: tl.constexpr,
    weighted: tl.constexpr,
):
    """What lands after one module, and the norm of the result. Grid [T, S / together].

    X += own * output + others * (sum of the other lanes' output), the same of `late`; see
    params.STEP. output [S, output_rows, D], late [S, late_rows, D]; late_compact: it has the tail's rows, not
    the body's. together: lanes of one program, which sums over the lanes once for all of them. sums,
    late_sums: whether others and late_others are not zero. weighted: the norm is multiplied by weights [D]
    FP32, behind the last module alone, which no other follows.
    """
    t = tl.program_id(0)
    row = t + tl.where(tail != 0, tl.maximum(tl.load(meta + 3) - 1, 0), 0).to(tl.int32)
    late_row = tl.where(late_compact != 0, t, row)
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
    lane = tl.program_id(1) * together
    place = (row, t, late_row, rows, output_rows, late_rows, dim)
    x, size, o, p = _lane(streams, rms, output, late, lane, place, inside, block, has_late, factored)
    for i in tl.static_range(together):
        if i + 1 < together:  # asked for before this lane's sum makes the program wait
            x1, size1, o1, p1 = _lane(
                streams, rms, output, late, lane + 1, place, inside, block, has_late, factored
            )
        y = x.to(tl.float32) * size + total + (own - others) * o.to(tl.float32)
        if has_late:
            y += (late_own - late_others) * p.to(tl.float32)
        square = tl.sum(y * y, 0) / dim + eps
        norm = (y * tl.rsqrt(square)).to(normed.dtype.element_ty)
        if weighted:
            weight = tl.load(weights + d, mask=inside, other=0.0)
            norm = (norm.to(tl.float32) * weight).to(normed.dtype.element_ty)
        at = (lane * rows + row) * dim + d
        if factored:
            tl.store(rms + lane * rows + row, tl.sqrt(square))
            compact = tl.where(tail != 0, dim, 0)  # else normed is where streams are
            tl.store(streams + at, norm, mask=d < compact)
        else:
            tl.store(streams + at, y, mask=inside)
        tl.store(normed + (lane * output_rows + t) * dim + d, norm, mask=inside)
        if i + 1 < together:
            lane += 1
            x, size, o, p = x1, size1, o1, p1


@_kernel
def turn_and_append(  # type: ignore[no-untyped-def]
    meta,
    qkv,
    bias,
    weights,
    rope,
    queries,
    scale,
    eps,
    layer,
    lane_heads,
    heads,
    rep,
    h,
    rows,
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
    lane = head // lane_heads
    all_rows = lane_heads * (rep + 2) * h
    inner = (head % lane_heads) * (rep + 2) * h
    v = tl.arange(0, vectors)[:, None]
    e = tl.arange(0, block)[None, :]
    inside = (v < rep + 2) & (e < h)
    x = tl.load(qkv + (lane * rows + t) * all_rows + inner + v * h + e, mask=inside, other=0.0)
    if has_bias:
        from_bias = bias + (layer * (heads // lane_heads) + lane) * all_rows + inner
        x += tl.load(from_bias + v * h + e, mask=inside, other=0.0)
    position = tl.load(meta + 2) + t
    y = x
    if has_norm:
        inverse = tl.rsqrt(tl.sum(x * x, 1) / h + eps)[:, None]
        which = tl.where(v < rep, 0, 1)
        y = x * inverse * tl.load(weights + (layer * 2 + which) * h + e, mask=e < h, other=0.0)
    even, odd = tl.split(tl.reshape(y, [vectors, block // 2, 2]))
    pair = tl.arange(0, block // 2)[None, :]
    is_real = t < tl.load(meta + 3)  # a padding row may lie past the context, so past the table
    angle = rope + tl.where(is_real, position, 0) * h + 2 * pair
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
    end = tl.where(is_real, rep + 2, 0)  # a padding row appends nothing
    real = (v >= rep) & (v < end) & (e < h)
    tl.store(cache + at, tl.where(v == rep, turned, x).to(queries.dtype.element_ty), mask=real)


@_kernel
def attend(  # type: ignore[no-untyped-def]
    meta,
    queries,
    mixed,
    partial,
    sums,
    layer,
    lane_heads,
    heads,
    rep,
    h,
    rows,
    count,
    window,
    splits,
    tail,
    low: tl.constexpr,
    high: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    whole: tl.constexpr,
):
    """Attention of `count` tokens over the cache. Grid [ceil(count * rep / block_m), K, splits].

    A tile's rows are the tokens times the rep heads that share a kv head. A head is `low` columns, a power of
    two, and `high` more (0: none), so that one of 96 is not multiplied by padding. window: larger than any
    context for full attention. whole: there is one split, and the result goes to mixed [S, rows, heads of a
    lane * h]; else its parts go to partial [splits, K, count * rep, h] and their log2 sums to
    sums [splits, K, count * rep], FP32.
    """
    head = tl.program_id(1)
    split = tl.program_id(2)
    half = queries.dtype.element_ty
    first = tl.where(tail != 0, tl.maximum(tl.load(meta + 3) - 1, 0), 0).to(tl.int32)
    r = tl.program_id(0) * block_m + tl.arange(0, block_m)
    token = first + r // rep
    there = r < count * rep
    position = tl.load(meta + 2).to(tl.int32)
    real = tl.load(meta + 3).to(tl.int32)
    capacity = tl.load(meta + 1)
    e = tl.arange(0, low)
    from_q = queries + ((head * rows + first) * rep + r)[:, None] * h
    q = tl.load(from_q + e[None, :], mask=there[:, None] & (e < h)[None, :], other=0.0)
    if high:
        e2 = low + tl.arange(0, high)
        q2 = tl.load(from_q + e2[None, :], mask=there[:, None] & (e2 < h)[None, :], other=0.0)
    begin = first + tl.program_id(0) * block_m // rep
    last = first + (tl.minimum(tl.program_id(0) * block_m + block_m, count * rep) - 1) // rep
    end = position + tl.minimum(last + 1, real)
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
    # Between the window's edge and the diagonal lie the keys that every row sees: most, and none of them is
    # asked for.
    seen = tl.cdiv(tl.maximum(position + last + 1 - window, 0), block_n) * block_n
    seen = tl.maximum(seen, start)
    unseen = tl.maximum(tl.minimum(position + begin + 1, end) // block_n * block_n, seen)
    for part in tl.static_range(3):
        low_key = start if part == 0 else seen if part == 1 else unseen
        high_key = tl.minimum(seen, end) if part == 0 else unseen if part == 1 else end
        for n0 in range(low_key, high_key, block_n):
            n = n0 + tl.arange(0, block_n)
            if part == 1:
                from_k = e[:, None] < h
                from_v = e[None, :] < h
            else:
                inside = n < end
                from_k = inside[None, :] & (e < h)[:, None]
                from_v = inside[:, None] & (e < h)[None, :]
            k = tl.load(keys + n[None, :] * h + e[:, None], mask=from_k, other=0.0)
            score = tl.dot(q, k)
            if high:
                if part == 1:
                    from_k2 = e2[:, None] < h
                    from_v2 = e2[None, :] < h
                else:
                    from_k2 = inside[None, :] & (e2 < h)[:, None]
                    from_v2 = inside[:, None] & (e2 < h)[None, :]
                k2 = tl.load(keys + n[None, :] * h + e2[:, None], mask=from_k2, other=0.0)
                score = tl.dot(q2, k2, score)
            if part != 1:
                age = (position + token)[:, None] - n[None, :]
                visible = (age >= 0) & (age < window) & inside[None, :]
                score = tl.where(visible, score, float("-inf"))
            new = tl.maximum(top, tl.max(score, 1))
            safe = new if part == 1 else tl.where(new == float("-inf"), 0.0, new)
            kept = tl.exp2(top - safe)
            weight = tl.exp2(score - safe[:, None])
            mass = mass * kept + tl.sum(weight, 1)
            weight = weight.to(half)
            v = tl.load(values + n[:, None] * h + e[None, :], mask=from_v, other=0.0)
            acc = tl.dot(weight, v, acc * kept[:, None])
            if high:
                v2 = tl.load(values + n[:, None] * h + e2[None, :], mask=from_v2, other=0.0)
                acc2 = tl.dot(weight, v2, acc2 * kept[:, None])
            top = new
    safe_mass = tl.where(mass == 0.0, 1.0, mass)
    acc = acc / safe_mass[:, None]
    if high:
        acc2 = acc2 / safe_mass[:, None]
    if whole:
        column = ((head % lane_heads) * rep + r % rep) * h
        to = mixed + ((head // lane_heads * rows + r // rep) * (lane_heads * rep * h) + column)[:, None]
        tl.store(to + e[None, :], acc.to(half), mask=there[:, None] & (e < h)[None, :])
        if high:
            tl.store(to + e2[None, :], acc2.to(half), mask=there[:, None] & (e2 < h)[None, :])
    else:
        at = (split * heads + head) * (count * rep) + r
        tl.store(sums + at, tl.where(mass == 0.0, float("-inf"), top + tl.log2(safe_mass)), mask=there)
        to = partial + at[:, None] * h
        tl.store(to + e[None, :], acc, mask=there[:, None] & (e < h)[None, :])
        if high:
            tl.store(to + e2[None, :], acc2, mask=there[:, None] & (e2 < h)[None, :])


@_kernel
def merge_splits(  # type: ignore[no-untyped-def]
    partial,
    sums,
    mixed,
    lane_heads,
    heads,
    rep,
    h,
    rows,
    count,
    splits,
    most: tl.constexpr,
    block: tl.constexpr,
):
    """The parts of `attend` into mixed. Grid [count * rep, K]. most: a power of two that holds splits."""
    r = tl.program_id(0)
    head = tl.program_id(1)
    s = tl.arange(0, most)
    e = tl.arange(0, block)
    at = (s * heads + head) * (count * rep) + r
    log = tl.load(sums + at, mask=s < splits, other=float("-inf"))
    top = tl.max(log, 0)
    weight = tl.exp2(log - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(weight, 0)
    there = (s < splits)[:, None] & (e < h)[None, :]
    x = tl.load(partial + at[:, None] * h + e[None, :], mask=there, other=0.0)
    y = tl.sum(x * weight[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    column = ((head % lane_heads) * rep + r % rep) * h
    to = mixed + (head // lane_heads * rows + r // rep) * (lane_heads * rep * h) + column + e
    tl.store(to, y.to(mixed.dtype.element_ty), mask=e < h)


@_kernel
def gate(both, hidden, rows, size, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """hidden [S, rows, size] = silu(gate) * up of both [S, rows, size, 2]. Grid [T, size / block, S]."""
    row = (tl.program_id(2) * rows + tl.program_id(0)).to(tl.int64)
    i = tl.program_id(1) * 2 * block + tl.arange(0, 2 * block)
    x = tl.load(both + row * (2 * size) + i, mask=i < 2 * size, other=0.0).to(tl.float32)
    g, u = tl.split(tl.reshape(x, [block, 2]))
    j = tl.program_id(1) * block + tl.arange(0, block)
    y = g / (1.0 + tl.exp(-g)) * u
    tl.store(hidden + row * size + j, y.to(hidden.dtype.element_ty), mask=j < size)


@_kernel
def _few(  # type: ignore[no-untyped-def]
    x,
    w,
    rows,
    count,
    size,
    columns,
    block_n: tl.constexpr,
    block_t: tl.constexpr,
    block_k: tl.constexpr,
):
    """This program's sums [block_n, block_t] of x [S, rows, columns] times w [S, size, columns]."""
    lane = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    t = tl.arange(0, block_t)
    k = tl.arange(0, block_k)
    from_w = w + (lane * size + n)[:, None] * columns + k[None, :]
    from_x = x + (lane * rows + t)[None, :] * columns + k[:, None]
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
    return acc


@_kernel
def multiply_few(  # type: ignore[no-untyped-def]
    x,
    w,
    out,
    rows,
    output_rows,
    count,
    size,
    columns,
    gated: tl.constexpr,
    block_n: tl.constexpr,
    block_t: tl.constexpr,
    block_k: tl.constexpr,
):
    """out [S, output_rows, size] = x [S, rows, columns] times w [S, size, columns] for few rows.

    Each program streams its weights once. gated: rows of w alternate gate and up, and out
    [S, output_rows, size / 2] is silu(gate) * up. Grid [ceil(size / block_n), S].
    """
    lane = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    t = tl.arange(0, block_t)
    acc = _few(x, w, rows, count, size, columns, block_n, block_t, block_k)
    if gated:
        g, u = tl.split(tl.permute(tl.reshape(acc, [block_n // 2, 2, block_t]), 0, 2, 1))
        y = g / (1.0 + tl.exp(-g)) * u
        m = tl.program_id(0) * (block_n // 2) + tl.arange(0, block_n // 2)
        to = out + (lane * output_rows + t)[:, None] * (size // 2) + m[None, :]
        inside_out = (t < count)[:, None] & (m < size // 2)[None, :]
        tl.store(to, tl.trans(y).to(out.dtype.element_ty), mask=inside_out)
    else:
        to = out + (lane * output_rows + t)[:, None] * size + n[None, :]
        inside_out = (t < count)[:, None] & (n < size)[None, :]
        tl.store(to, tl.trans(acc).to(out.dtype.element_ty), mask=inside_out)


@_kernel
def multiply_and_turn(  # type: ignore[no-untyped-def]
    meta,
    x,
    w,
    bias,
    rope,
    queries,
    scale,
    layer,
    lane_heads,
    heads,
    rep,
    h,
    rows,
    count,
    size,
    columns,
    has_bias: tl.constexpr,
    block_n: tl.constexpr,
    block_t: tl.constexpr,
    block_k: tl.constexpr,
):
    """multiply_few and turn_and_append in one, where q and k have no norm: no program has a row of them.

    x [S, rows, columns], w [S, size, columns], size = R. Grid [ceil(size / block_n), S].
    """
    lane = tl.program_id(1)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    t = tl.arange(0, block_t)
    acc = _few(x, w, rows, count, size, columns, block_n, block_t, block_k)
    if has_bias:
        from_bias = bias + (layer * (heads // lane_heads) + lane) * size
        acc += tl.load(from_bias + n, mask=n < size, other=0.0)[:, None]
    position = tl.load(meta + 2)
    is_real = t < tl.load(meta + 3)  # a padding row may lie past the context, so past the table
    even, odd = tl.split(tl.permute(tl.reshape(acc, [block_n // 2, 2, block_t]), 0, 2, 1))
    pair = tl.program_id(0) * block_n + 2 * tl.arange(0, block_n // 2)
    turns = (pair < size) & (pair // h % (rep + 2) <= rep)
    angle = rope + tl.where(is_real, position + t, 0)[None, :] * h + (pair % h)[:, None]
    cos = tl.load(angle, mask=turns[:, None], other=1.0)
    sin = tl.load(angle + 1, mask=turns[:, None], other=0.0)
    both = tl.join(even * cos - odd * sin, even * sin + odd * cos)
    y = tl.trans(tl.reshape(tl.permute(both, 0, 2, 1), [block_n, block_t]))
    head = (lane * lane_heads + n // ((rep + 2) * h))[None, :]
    v = (n // h % (rep + 2))[None, :]
    e = (n % h)[None, :]
    inside = (n < size)[None, :]
    to = queries + ((head * rows + t[:, None]) * rep + v) * h + e
    half = queries.dtype.element_ty
    tl.store(to, (y * scale).to(half), mask=inside & (v < rep) & (t < count)[:, None])
    cache = tl.multiple_of(tl.load(meta).to(queries.dtype), 16)
    at = ((layer * 2 + v - rep) * heads + head) * tl.load(meta + 1) + (position + t)[:, None]
    tl.store(cache + at * h + e, y.to(half), mask=inside & (v >= rep) & is_real[:, None])


@_kernel
def greedy(logits, out, legal, bits, vocab, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of logits [V]: out [P, 4] FP32, for each of the grid's P programs its part's largest legal logit, that
    id's low and high 16 bits, and log2 of its sum of all exponentials; NaN or infinity make the first NaN.

    legal [2] int64: ids at or above the first are not legal, and where the second is not 0, only those whose
    bits are set in bits [ceil(V/32)] int32. The lowest id wins among equals.
    """
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(logits + i, mask=i < vocab, other=float("-inf"))
    bit = (tl.load(bits + i // 32, mask=i < vocab, other=0) >> (i % 32)) & 1
    bit = tl.where(tl.load(legal + 1) != 0, bit, 1)
    z = tl.where((i < tl.load(legal)) & (bit != 0), x, float("-inf"))
    best = tl.max(z, 0)
    id_ = tl.min(tl.where(z == best, i, 2147483647), 0)
    top = tl.max(x, 0)
    log = tl.log2(tl.sum(tl.exp2((x - top) * 1.4426950408889634), 0)) + top * 1.4426950408889634
    wrong = tl.sum(tl.where((x < float("inf")), 0, 1), 0) > 0
    to = out + tl.program_id(0) * 4
    tl.store(to, tl.where(wrong, float("nan"), best))
    tl.store(to + 1, (id_ % 65536).to(tl.float32))
    tl.store(to + 2, (id_ // 65536).to(tl.float32))
    tl.store(to + 3, log)
