// One resident program a generated segment: one block an SM, roles by warp, phases in order. No arithmetic here
// but the residual stream's.
#include "hostlink.cuh"

struct Misc {  // shared memory, fixed size
    u64 full[24], empty[24];
    float squares[8][WARPS];  // [row][warp]
    int quit;
    u32 aborted;
};

#ifdef KOGAGENT_PROFILE
#define MARK(i)                                \
    do {                                       \
        if (threadIdx.x == 0) {                \
            const long long now_ = clock64();  \
            cycles[i] += now_ - mark;          \
            mark = now_;                       \
        }                                      \
    } while (0)
#else
#define MARK(i)
#endif

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// Reads a published stream into x and its sum of squares; W rows from `row`.
template <int W>
__device__ __noinline__ void gather_stream(const Place& me, char* x, Misc& misc, int row,
                                              int rows, int parity, u32 tag) {
    for (int w = 0; w < rows; w++) {
        const u64* from = (const u64*)p.xbuf + ((size_t)(parity * p.lanes + me.lane) * W + row + w) * (p.dim / 2);
        uint2* to = (uint2*)(x + w * p.x_stride * 2);
        float square = 0;
        gather_cells<4>(from, p.dim / 4, tag, WAIT_STREAM, [&](int i, u32 a, u32 b) {
            to[i] = make_uint2(a, b);
            const float2 f = unpack_halves(a), g = unpack_halves(b);
            square += f.x * f.x + f.y * f.y + g.x * g.x + g.y * g.y;
        });
        square = warp_sum(square);
        if ((threadIdx.x & 31) == 0) misc.squares[w][threadIdx.x >> 5] = square;
    }
    // columns past the matrix: zero, whatever an earlier phase left there
    const int pad = p.shape[0].tiles * 32 - p.dim;
    for (int i = threadIdx.x; i < rows * pad; i += THREADS) ((unsigned short*)x)[(i / pad) * p.x_stride + p.dim + i % pad] = 0;
    sync_consumers();
}
template <int W, int WHAT>
__device__ __noinline__ void gather_pairs(const u64* from, int values, int padded, char* x,
                                             int rows, u32 tag) {
    for (int w = 0; w < rows; w++) {
        uint2* to = (uint2*)(x + w * p.x_stride * 2);
        gather_cells<4>(from + (size_t)w * (values / 2), values / 4, tag, WHAT,
                        [&](int i, u32 a, u32 b) { to[i] = make_uint2(a, b); });
    }
    const int pad = padded - values;
    for (int i = threadIdx.x; i < rows * pad; i += THREADS) ((unsigned short*)x)[(i / pad) * p.x_stride + values + i % pad] = 0;
    sync_consumers();
}

__device__ __forceinline__ float mean_square(const Misc& misc, int w) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) sum += misc.squares[w][i];
    return sum / p.dim;
}

// v[i] of an array that must stay in registers.
template <int W>
__device__ __forceinline__ float pick(const float (&v)[W], int i) {
    float x = v[0];
#pragma unroll
    for (int j = 1; j < W; j++)
        if (j == i) x = v[j];
    return x;
}

// What lands late on this block's rows, while the exchange before it is under way. late [W][max_dim_rows].
template <int W>
__device__ __noinline__ void read_late(const Place& me, const Step& step, float* late, int rows, int dim_first, int dim_rows, u32 pass,
                                       u32 tag0) {
    const u64* slot = (const u64*)p.obuf + ((size_t)(pass & 1) * 2 * p.layers + step.late) * p.lanes * W * p.dim;
    const u32 tag = tag0 + step.late;
    for (int i = threadIdx.x; i < rows * dim_rows; i += THREADS) {
        const int w = W == 1 ? 0 : i / dim_rows, row = i - w * dim_rows;
        const u64* from = slot + (size_t)w * p.dim + dim_first + row;
        float sum = 0;
        for (int j0 = 0; j0 < p.lanes; j0 += 8) {
            u64 v[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (j0 + j < p.lanes) v[j] = load_word(from + (size_t)(j0 + j) * W * p.dim);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (j0 + j >= p.lanes) continue;
                const float k = j0 + j == me.lane ? step.late_own : step.late_others;
                if (k == 0.0f) continue;
                u32 bits = (u32)v[j];
                if (tag_of(v[j]) != tag) bits = poll_word(from + (size_t)(j0 + j) * W * p.dim, tag, WAIT_LANES, j0 + j);
                sum += k * __uint_as_float(bits);
            }
        }
        late[w * p.max_dim_rows + row] = sum;
    }
}

// The attention of a row from its splits, into x as halves [rows][heads*h].
template <int W>
__device__ __noinline__ void combine(const Place& me, char* x, int rows, int at0, int window, bool needed, u32 tag) {
    const int width = p.heads * p.head_dim, padded = p.shape[1].tiles * 32;
    if (p.direct_combine) {  // every block merges everything: one exchange less
        if (needed) {
            for (int w = 0; w < rows; w++) {
                uint2* to = (uint2*)(x + w * p.x_stride * 2);
                merge_splits<W>(me, w, at0 + w, window, 0, width / 4, tag, [&](int quad, u32 a, u32 b) { to[quad] = make_uint2(a, b); });
            }
            const int pad = padded - width;
            for (int i = threadIdx.x; i < rows * pad; i += THREADS)
                ((unsigned short*)x)[(i / pad) * p.x_stride + width + i % pad] = 0;
        }
        sync_consumers();
        return;
    }
    const int low = (int)((long long)me.rank * (width / 4) / p.group), high = (int)((long long)(me.rank + 1) * (width / 4) / p.group);
    for (int w = 0; w < rows; w++) {
        u64* to = (u64*)p.abuf + (size_t)(me.lane * W + w) * (width / 2);
        merge_splits<W>(me, w, at0 + w, window, low, high, tag, [&](int quad, u32 a, u32 b) {
            store_word(to + 2 * quad, tagged(a, tag));
            store_word(to + 2 * quad + 1, tagged(b, tag));
        });
    }
    if (needed)
        gather_pairs<W, WAIT_ATTENTION>((const u64*)p.abuf + (size_t)me.lane * W * (width / 2), width, padded, x, rows, tag);
    else
        sync_consumers();
}

template <int W>
__device__ void consume(char* sm, const Ring& ring, Misc& misc) {
    Cursor cursor = {ring, 0};
    const int tid = threadIdx.x;
    const Place me = {(int)blockIdx.x / p.group, (int)blockIdx.x % p.group};
    char* x = sm + p.off_x;
    float* red = (float*)(sm + p.off_red);
    float* stream = (float*)(sm + p.off_stream);  // [W][max_dim_rows]: this block's rows of the residual
    float* late = (float*)(sm + p.off_late);      // the same rows of what lands late
    float* logits = (float*)(sm + p.off_logits);
    float* z = (float*)(sm + p.off_z);
    float2* rope = (float2*)(sm + p.off_rope);    // [W][h/2]
    const u32* schedule = (const u32*)(sm + p.off_schedule);
    const Step* steps = (const Step*)p.steps;
    const int modules = 2 * p.layers, stride = modules + 64;
    const int dim_first = (int)(schedule[1] >> 16) * 8, dim_units = (int)(schedule[1] & 0xffff), dim_rows = dim_units * 8;
    const u32 head_entry = schedule[4 * p.layers];
    const int head_first = (int)(head_entry >> 16) * 8, head_units = (int)(head_entry & 0xffff);
    float scale[W], inverse[W];  // of the published stream; of its norm
    int at0 = p.position, sampled = 0, fed = 0, token = 0;
#ifdef KOGAGENT_PROFILE
    long long cycles[16] = {}, mark = clock64();
#endif
    for (u32 pass = 0;; pass++) {
        const bool feeding = fed < p.n_pending;
        const int rows = feeding ? min(W, p.n_pending - fed) : 1;
        const u32 tag0 = p.tag_base + pass * stride;
        u64* out_slots = (u64*)p.obuf + (size_t)(pass & 1) * modules * p.lanes * W * p.dim;

        // ── embedding ──
        for (int w = 0; w < rows; w++) {
            const int id = feeding ? ((const int*)p.pending)[fed + w] : token;
            const u32* row = (const u32*)p.embed + (size_t)id * (p.dim / 2);
            u32* to = (u32*)(x + w * p.x_stride * 2);
            float square = 0;
            for (int i = tid; i < p.dim / 2; i += THREADS) {
                const u32 v = row[i];
                const float2 f = unpack_halves(v);
                to[i] = v;
                square += f.x * f.x + f.y * f.y;
                if (2 * i >= dim_first && 2 * i < dim_first + dim_rows)
                    *(float2*)(stream + w * p.max_dim_rows + 2 * i - dim_first) = f;
            }
            square = warp_sum(square);
            if ((tid & 31) == 0) misc.squares[w][tid >> 5] = square;
            for (int i = tid; i < p.head_dim / 2; i += THREADS)
                rope[w * (p.head_dim / 2) + i] = ((const float2*)p.rope)[(size_t)(at0 + w) * (p.head_dim / 2) + i];
            const int pad = p.shape[0].tiles * 32 - p.dim;
            for (int i = tid; i < pad; i += THREADS) ((unsigned short*)x)[w * p.x_stride + p.dim + i] = 0;
        }
        sync_consumers();
        float first_inverse = 1.0f;
#pragma unroll
        for (int w = 0; w < W; w++) scale[w] = 1.0f;

        const auto read_norm = [&](float eps) {
#pragma unroll
            for (int w = 0; w < W; w++)
                if (w < rows) inverse[w] = rsqrtf(mean_square(misc, w) + eps * scale[w] * scale[w]);
        };
        // Sums of a batch of this block's rows of o: land them, publish the stream.
        const auto land = [&](int module, const Step& step, int u0, int n, const float* partial) {
            const u32 tag = tag0 + module;
            u64* slot = out_slots + (size_t)module * p.lanes * W * p.dim;
            for (int i = tid; i < rows * n * 4; i += THREADS) {
                const int w = i / (n * 4), pair = i % (n * 4);
                const int local = u0 * 8 + 2 * pair, row = dim_first + local;
                float* s = stream + w * p.max_dim_rows + local;
                const float o0 = row_sum<W>(partial, 2 * pair, w), o1 = row_sum<W>(partial, 2 * pair + 1, w);
                if (step.sends) {
                    u64* to = slot + ((size_t)me.lane * W + w) * p.dim + row;
                    store_word(to, tagged(__float_as_uint(o0), tag));
                    store_word(to + 1, tagged(__float_as_uint(o1), tag));
                }
                float x0 = s[0] + step.own * o0, x1 = s[1] + step.own * o1;
                if (step.late >= 0) {
                    x0 += late[w * p.max_dim_rows + local];
                    x1 += late[w * p.max_dim_rows + local + 1];
                }
                if (step.others != 0.0f) {
                    float y0 = 0, y1 = 0;
                    for (int j = 0; j < p.lanes; j++) {
                        if (j == me.lane) continue;
                        const u64* from = slot + ((size_t)j * W + w) * p.dim + row;
                        y0 += __uint_as_float(poll_word(from, tag, WAIT_LANES, j));
                        y1 += __uint_as_float(poll_word(from + 1, tag, WAIT_LANES, j));
                    }
                    x0 += step.others * y0;
                    x1 += step.others * y1;
                }
                s[0] = x0;
                s[1] = x1;
                const float k = pick<W>(scale, w);
                u64* to = (u64*)p.xbuf + ((size_t)((module & 1) * p.lanes + me.lane) * W + w) * (p.dim / 2) + row / 2;
                store_word(to, tagged(pack_halves(x0 * k, x1 * k), tag));
            }
        };

        for (int layer = 0; layer < p.layers; layer++) {
            const u32* plan = schedule + 4 * layer;
            for (int half = 0; half < 2; half++) {
                const int module = 2 * layer + half;
                const Step step = steps[module];
                const u32 tag = tag0 + module;
                const int in_units = (int)(plan[2 * half] & 0xffff), in_first = (int)(plan[2 * half] >> 16) * 8;
                if (module > 0)
                    gather_stream<W>(me, x, misc, 0, rows, (module - 1) & 1, tag - 1);
                read_norm(p.eps);
                if (module == 0) first_inverse = pick<W>(inverse, rows - 1);
                MARK(half ? 4 : 0);
                if (half == 0) {
                    const float* bias = p.bias ? (const float*)p.bias + (size_t)(layer * p.lanes + me.lane) * p.qkv_rows : nullptr;
                    multiply<W>(cursor, 0, in_units, x, red, [&](int u0, int n, const float* partial) {
                        for (int i = tid; i < rows * n * 8; i += THREADS) {
                            const int w = i / (n * 8), local = i % (n * 8), row = in_first + u0 * 8 + local;
                            if (row >= p.qkv_rows) continue;
                            const float k = pick<W>(inverse, w);
                            const float y = row_sum<W>(partial, local, w) * k + (bias ? bias[row] : 0.0f);
                            store_word((u64*)p.qbuf + (size_t)(me.lane * W + w) * p.qkv_rows + row, tagged(__float_as_uint(y), tag));
                        }
                    });
                    MARK(1);
                    if (me.rank < p.kv_heads * p.splits) attend<W>(me, sm + p.off_attn, rope, layer, rows, at0, step.window, tag);
                    MARK(2);
                } else {
                    multiply<W>(cursor, 2, in_units, x, red, [&](int u0, int n, const float* partial) {
                        for (int i = tid; i < rows * n * 2; i += THREADS) {  // pairs of hidden values: 4 rows
                            const int w = i / (n * 2), pair = i % (n * 2);
                            const float k = pick<W>(inverse, w);
                            const float g0 = row_sum<W>(partial, 4 * pair, w) * k, u_0 = row_sum<W>(partial, 4 * pair + 1, w) * k;
                            const float g1 = row_sum<W>(partial, 4 * pair + 2, w) * k, u_1 = row_sum<W>(partial, 4 * pair + 3, w) * k;
                            u64* to = (u64*)p.hbuf + (size_t)(me.lane * W + w) * (p.ffn / 2) + (in_first / 4) + u0 * 2 + pair;
                            store_word(to, tagged(pack_halves(silu(g0) * u_0, silu(g1) * u_1), tag));
                        }
                    });
                    MARK(5);
                }
                // The stream is published on the scale that makes its last norm 1: no value leaves f16's range.
#pragma unroll
                for (int w = 0; w < W; w++)
                    if (w < rows) scale[w] *= inverse[w];
                if (dim_units && step.late >= 0) read_late<W>(me, step, late, rows, dim_first, dim_rows, pass, tag0);
                if (half == 0) {
                    combine<W>(me, x, rows, at0, step.window, dim_units > 0, tag);
                } else if (dim_units) {
                    gather_pairs<W, WAIT_HIDDEN>((const u64*)p.hbuf + (size_t)me.lane * W * (p.ffn / 2), p.ffn,
                                                 p.shape[3].tiles * 32, x, rows, tag);
                } else {
                    sync_consumers();
                }
                MARK(half ? 6 : 3);
                multiply<W>(cursor, half ? 3 : 1, dim_units, x, red,
                            [&](int u0, int n, const float* partial) { land(module, step, u0, n, partial); });
                MARK(half ? 8 : 7);
            }
        }
        if (feeding) fed += rows;
        at0 += rows;
        if (feeding && (fed < p.n_pending || !p.want_head)) {
            if (fed < p.n_pending) {
                if (any_consumer(*(volatile int*)&gone)) break;
                continue;
            }
            if (blockIdx.x == 0 && tid == 0) emit_token(0, 0, 0.0f, FED);
            break;
        }

        // ── head: of the last row ──
        const u32 tag = tag0 + modules;
        const int last = rows - 1;
        float head_inverse = 1.0f;
        scale[0] = pick<W>(scale, last);
        if (p.head_mode == 0) {
            gather_stream<W>(me, x, misc, last, 1, (modules - 1) & 1, tag - 1);
            head_inverse = rsqrtf(mean_square(misc, 0) + p.head_eps * scale[0] * scale[0]);
        } else {
            const float* s = stream + last * p.max_dim_rows;
            if (p.head_mode == 1) {
                gather_stream<W>(me, x, misc, last, 1, (modules - 1) & 1, tag - 1);
                // the scale of the gathered stream times its inverse norm is the inverse norm of the stream itself
                head_inverse = scale[0] * rsqrtf(mean_square(misc, 0) + p.head_eps * scale[0] * scale[0]) / p.lanes;
            } else {
                head_inverse = first_inverse / 32.0f;  // the same in every lane; leaves f16 room for growth
            }
            for (int i = tid; i < dim_rows; i += THREADS)
                store_word((u64*)p.f1 + (size_t)me.lane * p.dim + dim_first + i, tagged(__float_as_uint(s[i] * head_inverse), tag));
            const int low = (int)((long long)blockIdx.x * (p.dim / 2) / p.blocks), high = (int)((long long)(blockIdx.x + 1) * (p.dim / 2) / p.blocks);
            for (int i = low + tid; i < high; i += THREADS) {
                float a = 0, b = 0;
                for (int j = 0; j < p.lanes; j++) {
                    const u64* from = (const u64*)p.f1 + (size_t)j * p.dim + 2 * i;
                    u64 va, vb;
                    u32 ba, bb;
                    load_two_words(from, va, vb);
                    poll_two(from, va, vb, tag, WAIT_HEAD, j, ba, bb);
                    a += __uint_as_float(ba);
                    b += __uint_as_float(bb);
                }
                store_word((u64*)p.f2 + i, tagged(pack_halves(a, b), tag));
            }
            uint2* to = (uint2*)x;
            float square = 0;
            sync_consumers();
            gather_cells<4>((const u64*)p.f2, p.dim / 4, tag, WAIT_HEAD, [&](int i, u32 a, u32 b) {
                to[i] = make_uint2(a, b);
                const float2 f = unpack_halves(a), g = unpack_halves(b);
                square += f.x * f.x + f.y * f.y + g.x * g.x + g.y * g.y;
            });
            square = warp_sum(square);
            if ((tid & 31) == 0) misc.squares[0][tid >> 5] = square;
            for (int i = p.dim + tid; i < p.shape[4].tiles * 32; i += THREADS) ((unsigned short*)x)[i] = 0;
            sync_consumers();
            const float k = head_inverse;
            head_inverse = p.head_mode == 1 ? 1.0f : rsqrtf(mean_square(misc, 0) + p.head_eps * k * k);
        }
        MARK(9);
        const int base = p.head_grid ? 0 : me.lane * p.head_rows;
        multiply<W>(cursor, 4, head_units, x, red, [&](int u0, int n, const float* partial) {
            for (int i = tid; i < n * 8; i += THREADS) {
                const int local = u0 * 8 + i, row = head_first + local;
                const float y = row < p.head_rows ? row_sum<W>(partial, i, 0) * head_inverse : -INFINITY;
                logits[local] = y;
                if (p.logits_out && row < p.head_rows) ((float*)p.logits_out)[base + row] = y;
            }
        });
        sync_consumers();
        MARK(10);
        const int head_rows = max(0, min(head_units * 8, p.head_rows - head_first));
        const Choice c = choose(*(HeadScratch*)(sm + p.off_attn), logits, z, base + head_first, head_rows, at0, sampled & 1,
                                *(volatile u32*)&misc.aborted, tag);
        MARK(11);
        // ── the end of the segment is decided alike in every block ──
        u32 reason = RUNNING;
        if (c.flags & NOT_A_NUMBER)
            reason = FAILED_NAN;
        else if (c.flags & ABORTED)
            reason = CANCELLED;
        else if (c.id < 0)
            reason = FAILED_NO_ID;
        else {
            for (int i = 0; i < p.n_stop; i++)
                if (((const int*)p.stop_ids)[i] == c.id) reason = STOP_ID;
            if (reason == RUNNING && sampled + 1 >= p.max_tokens) reason = LENGTH;
            if (reason == RUNNING && at0 + 1 > p.capacity) reason = CONTEXT;
            const int row = c.id - base - head_first;
            if (tid == 0 && row >= 0 && row < head_rows) ((u8*)p.seen)[c.id] = 1;
        }
        if (any_consumer(*(volatile int*)&gone)) break;
        if (blockIdx.x == 0 && tid == 0) emit_token(sampled, c.id, c.logprob, reason);
        if (reason != RUNNING) break;
        token = c.id;
        sampled++;
    }
#ifdef KOGAGENT_PROFILE
    if (tid == 0 && p.profile)
        for (int i = 0; i < 16; i++) ((u64*)p.profile)[blockIdx.x * 16 + i] = cycles[i];
#endif
}

// Streams the tape until told to stop, then waits for the copies under way.
template <int W>
__device__ void produce(Ring ring, const u32* schedule, volatile int* quit) {
    const int lane = threadIdx.x & 31;
    const char* tape = (const char*)p.tape + p.tape_stride * blockIdx.x;
    u64 policy = 0;
#if __CUDA_ARCH__ >= 900
    policy = evict_first_policy();
#endif
    int fed = 0;
    for (bool going = true; going;) {
        const char* from = tape;
        const bool feeding = fed < p.n_pending;
        if (feeding) fed += min(W, p.n_pending - fed);
        for (int i = 0; i < 4 * p.layers && going; i++)
            going = stream_phase(ring, p.shape[i & 3], (int)(schedule[i] & 0xffff), from, lane, quit, policy);
        if (!going || (feeding && fed < p.n_pending)) continue;
        if (feeding && !p.want_head) break;
        going = stream_phase(ring, p.shape[4], (int)(schedule[4 * p.layers] & 0xffff), from, lane, quit, policy);
    }
    ring_settle(ring);
}

template <int W>
__device__ void decode(char* sm) {
    Misc& misc = *(Misc*)(sm + p.off_misc);
    Ring ring = {sm, misc.full, misc.empty, p.stage_bytes, p.stages, 0, 0, 0};
    u32* schedule = (u32*)(sm + p.off_schedule);
    const int phases = 4 * p.layers + 1;
    if (threadIdx.x == 0) {
        ring_init(ring);
        misc.quit = gone = 0;
        misc.aborted = 0;
    }
    for (int i = threadIdx.x; i < phases; i += blockDim.x) schedule[i] = ((const u32*)p.schedule)[blockIdx.x * phases + i];
    __syncthreads();
    const int warp = threadIdx.x >> 5;
    if (warp < WARPS) {
        consume<W>(sm, ring, misc);
        sync_consumers();
        if (threadIdx.x == 0) *(volatile int*)&misc.quit = 1;
    } else if (warp == WARPS) {
        produce<W>(ring, schedule, &misc.quit);
    } else if (blockIdx.x == 0 && threadIdx.x == (WARPS + 1) * 32) {
        watch_host(&misc.quit, &misc.aborted);
    }
}

extern __shared__ __align__(128) char shared_memory[];

extern "C" __global__ void __launch_bounds__((WARPS + 2) * 32, 1) decode_1() { decode<1>(shared_memory); }
extern "C" __global__ void __launch_bounds__((WARPS + 2) * 32, 1) decode_4() { decode<4>(shared_memory); }
extern "C" __global__ void __launch_bounds__((WARPS + 2) * 32, 1) decode_8() { decode<8>(shared_memory); }

#include "proof.cuh"  // static_asserts written by kernels/params.py
