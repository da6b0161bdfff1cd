// One resident program a generated segment: one block an SM, roles by warp, phases in order. No arithmetic here
// but the residual stream's. The warps that compute and the one that streams are here, the helper is in landings.cuh, the judges are
// in judges.cuh.
#include "attention.cuh"
#include "hostlink.cuh"
#include "inputs.cuh"
#include "judges.cuh"
#include "slack.cuh"

#ifdef KOGAGENT_PROFILE
#define MARK(i)                                \
    do {                                       \
        if (threadIdx.x == 0) {                \
            const long long now_ = clock64();  \
            timed[i] += now_ - mark;          \
            mark = now_;                       \
        }                                      \
    } while (0)
#else
#define MARK(i)
#endif

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// v[i] of an array that must stay in registers.
template <int W>
__device__ __forceinline__ float pick(const float (&v)[W], int i) {
    float x = v[0];
#pragma unroll
    for (int j = 1; j < W; j++)
        if (j == i) x = v[j];
    return x;
}

// Lets the producer read what this pass has put into the cache. Long after it was put there: the fence costs little.
__device__ __forceinline__ void cache_rows(Misc& misc, u32 pass) {
    stores_before_copies();
    sync_consumers();
    if (threadIdx.x == 0) publish_in_block(&misc.cached, (int)pass + 1);
}

// Lanes of one card that start a token apart wait for their exchanges apart, while the others stream.
#ifndef LANE_STAGGER
#define LANE_STAGGER Model::stagger  // cycles between lanes
#endif
#ifndef LANE_PHASES
#define LANE_PHASES 8  // lanes that start apart; the next ones start with the first
#endif
template <int W>
__device__ __forceinline__ void stagger(int lane) {
    if constexpr (W == 1 && LANE_STAGGER > 0 && DEVICE_LANES > 1) {  // wide passes are few, and their registers are all in use
        const long long since = clock64();
        while (clock64() - since < lane % LANE_PHASES * (long long)LANE_STAGGER) {
        }
    }
}

template <int W>
__device__ void consume(char* sm, const Ring& ring, Misc& misc) {
    const int tid = threadIdx.x;
    const int lane0 = Model::lanes == 1 ? 0 : this_block() / p.group;
    const u32* schedule = (const u32*)(sm + p.off_schedule);
    const int modules = 2 * p.layers;
    Cursor cursor = {ring, 0};
    float scale[W], inverse[W];  // of the published stream; of its norm
    // The ids to be fed: misc.token, if there is one, then those of misc.run. The first ones share passes, later runs do not. What is
    // asked for once a token stays in shared memory, written by thread 0: no register is left for it while keys are scored.
    int at0 = misc.position, pending = misc.pending, fed = 0, choices = 0, landed = 0;
#ifdef KOGAGENT_PROFILE
    long long mark = clock64();
    if (tid == 0)
        for (int i = 0; i < PROFILE_SLOTS; i++) timed[i] = 0;
#endif
    for (u32 pass = 0;; pass++) {
        const int rows = W == 1 || choices ? 1 : min(W, pending - fed);
        const bool heads = choices || (fed + rows == pending && p.want_head);
        const u32 tag0 = p.tag_base + (misc.passes + pass) * (modules + 64);
        stagger<W>(lane0);
        float first_inverse = 1.0f, head_inverse = 1.0f;
        int* const ids = (int*)(sm + as_new(p.off_red));
        if (tid < rows) {
            const int place = fed + tid - (misc.token >= 0);
            ids[tid] = place < 0 ? misc.token : pending_ids(misc.run)[place];
        }
        sync_consumers();
#pragma unroll 1
        for (int w = 0; w < rows; w++)
            read_embedding(sm + p.off_x, (float*)(sm + p.off_stream), (float2*)(sm + p.off_rope), misc, w, ids[w], at0 + w, (int)(schedule[1] >> 16) * 8, (int)(schedule[1] & 0xffff) * 8);
#pragma unroll
        for (int w = 0; w < W; w++) scale[w] = 1.0f;
        pad_input(sm + p.off_x, p.dim, rows);
        sync_consumers();
        Step step = {};
        if (Model::plain) step.late = -1, step.own = 1.0f;
#pragma unroll 1
        for (int phase = 0; phase < 4 * p.layers + (heads ? 1 : 0); phase++) {
            const Place me = {Model::lanes == 1 ? 0 : as_new(lane0), as_new(this_block() - lane0 * p.group)};
            char* const base = sm + as_new(0);
            char* const x = base + p.off_x;
            float* const red = (float*)(base + p.off_red);
            float* const stream = (float*)(base + p.off_stream);  // [W][max_dim_rows]: this block's rows of the residual
            const float* const late = (const float*)(base + p.off_late);  // [2] the same rows of what lands late
            float* const logits = (float*)(base + p.off_logits);
            const float2* const rope = (const float2*)(base + p.off_rope);  // [W][h/2]
            const int kind = phase == 4 * p.layers ? 4 : phase & 3, module = phase >> 1, layer = phase >> 2;
            const u32 tag = tag0 + module;
            const int first = (int)(schedule[phase] >> 16) * 8, units = (int)(schedule[phase] & 0xffff);
            if (as_new(tid) == 0) *(volatile int*)&misc.progress = (int)pass * (4 * p.layers + 1) + phase;
            // ── the input of the phase, in x ──
            const bool normed = !(kind & 1);
            if (kind == 4) {
                cache_rows(misc, pass);
                head_inverse = head_input(me, x, stream + (rows - 1) * p.max_dim_rows, misc, rows - 1, (int)(schedule[1] >> 16) * 8,
                                          (int)(schedule[1] & 0xffff) * 8, pick<W>(scale, rows - 1), first_inverse, tag);
            } else {
                const u64* from = (const u64*)p.xbuf + own_replica(XBUF_WORDS) + ((module - 1) & 1) * p.lanes * W * (p.dim / 2);
                int values = p.dim, parts = module > 0 || !normed;  // parts 0: x is there
                if (normed) {
                    if (!Model::plain) step = ((const Step*)p.steps)[module];
                } else {
                    if (kind == 1 && me.rank < ITEMS)
                        attend(me, base + p.off_attn, cursor.ring, rope, layer, rows, at0, (int)schedule[4 * p.layers + 1 + layer], tag);
                    MARK(12);
                    // The stream is published on the scale that makes its last norm 1: no value leaves f16's range.
#pragma unroll
                    for (int w = 0; w < W; w++)
                        if (w < rows) scale[w] *= inverse[w];
                    if (kind == 1) {
#pragma unroll 1
                        for (int w = 0; w < rows; w++) combine(me, x + w * p.x_stride * 2, w, units > 0, tag);
                    }
                    from = kind == 1 ? (const u64*)p.abuf + own_replica(ABUF_WORDS) : (const u64*)p.hbuf + own_replica(HBUF_WORDS);
                    values = kind == 1 ? p.heads * p.head_dim : p.ffn;
                    parts = units > 0 && !(kind == 1 && p.direct_combine);
                }
                if (parts) {
                    from += me.lane * W * (values / 2);
                    if (W > 1 && rows > 1)
                        gather_rows(from, values, normed ? tag - 1 : tag, x, rows, normed ? misc.squares : nullptr);
                    else if (normed)
                        gather_row<Model::dim, true>(from, tag - 1, x, misc.squares[0]);
                    else if (kind == 3)
                        gather_row<Model::ffn, false>(from, tag, x, nullptr);
                    else if constexpr (!Model::direct_combine)
                        gather_row<Model::heads * Model::head_dim, false>(from, tag, x, nullptr);
                }
                pad_input(x, values, rows);
                sync_consumers();
            }
            MARK(kind);
            const bool lands = Model::lands_late && (kind & 1) && units && step.late >= 0;
            const float* landing = late + (landed & 1) * W * p.max_dim_rows;
            if (lands) {
                if constexpr (SLACK) note_slack(landed);
                u32 spins = 0;
                bool there = barrier_try(misc.late_full + (landed & 1), (landed >> 1) & 1);
                COUNTED(21, !there);
                TIMED(20, while (!there && !give_up(spins)) there = barrier_try(misc.late_full + (landed & 1), (landed >> 1) & 1));
            }
            // Of a norm, which its sums are multiplied by: taken behind the product, where it waits for nothing.
            const auto inverse_of = [&](int w) { return inverse_norm(misc, w, p.eps, pick<W>(scale, w)); };
            multiply_kind<W>(cursor, kind, units, x, red, [&](auto cut, int u0, int n, const float* partial) {
                constexpr int K = decltype(cut)::kind, SHARE = decltype(cut)::share;
                if (cut_alike(K, 0) && kind == 0) {  // q, k and v to the blocks that attend
                    const float* bias = p.has_bias ? (const float*)p.bias + (size_t)(layer * p.lanes + me.lane) * p.qkv_rows : nullptr;
#pragma unroll 1
                    for (int i = tid; i < rows * n * 8; i += THREADS) {
                        const int w = W == 1 ? 0 : i / (n * 8), local = i - w * n * 8, row = first + u0 * 8 + local;
                        const float y = __fmaf_rn(row_sum<W, SHARE>(partial, local, w), inverse_of(w), bias ? bias[row] : 0.0f);
                        store_word((u64*)p.qbuf + (size_t)(me.lane * W + w) * p.qkv_rows + row, tagged(__float_as_uint(y), tag));
                    }
                } else if (cut_alike(K, 2) && kind == 2) {  // hidden values, two from four rows
#pragma unroll 1
                    for (int i = tid; i < rows * n * 2; i += THREADS) {
                        const int w = W == 1 ? 0 : i / (n * 2), pair = i - w * n * 2;
                        const float k = inverse_of(w);
                        const float g0 = row_sum<W, SHARE>(partial, 4 * pair, w) * k, v0 = row_sum<W, SHARE>(partial, 4 * pair + 1, w) * k;
                        const float g1 = row_sum<W, SHARE>(partial, 4 * pair + 2, w) * k, v1 = row_sum<W, SHARE>(partial, 4 * pair + 3, w) * k;
                        u64* to = (u64*)p.hbuf + (size_t)(me.lane * W + w) * (p.ffn / 2) + first / 4 + u0 * 2 + pair;
                        publish_word(to, HBUF_WORDS, tagged(pack_halves(silu(g0) * v0, silu(g1) * v1), tag));
                    }
                } else if (cut_alike(K, 4) && kind == 4) {
#pragma unroll 1
                    for (int i = tid; i < n * 8; i += THREADS) {
                        const int row = first + u0 * 8 + i;
                        const float y = row < p.head_rows ? row_sum<W, SHARE>(partial, i, 0) * head_inverse : -INFINITY;
                        logits[u0 * 8 + i] = y;
                        if (p.logits_out && row < p.head_rows) ((float*)p.logits_out)[(p.head_grid ? 0 : me.lane * p.head_rows) + row] = y;
                    }
                } else if (cut_alike(K, 1) || cut_alike(K, 3)) {  // o: land it on the stream, publish that
                    // Over several devices half of the threads put o out while the others land it: this block's next phase waits
                    // for its slowest warp. On one, the two words of a sum that go out would only stand in the way of the stream's.
                    constexpr int LANDERS = SEVERAL ? THREADS / 2 : THREADS;
                    const bool sender = SEVERAL && tid >= LANDERS;
                    const bool waited_for = step.sends && step.others != 0.0f;
#pragma unroll 1
                    for (int i = sender ? tid - LANDERS : tid; i < (sender && !step.sends ? 0 : rows * n * 4); i += LANDERS) {
                        const int w = W == 1 ? 0 : i / (n * 4), pair = i - w * n * 4;
                        const int local = u0 * 8 + 2 * pair, row = first + local;  // out and down have the same rows
                        float* s = stream + w * p.max_dim_rows + local;
                        const float o0 = row_sum<W, SHARE>(partial, 2 * pair, w), o1 = row_sum<W, SHARE>(partial, 2 * pair + 1, w);
                        const auto send = [&] {
                            const size_t at = (size_t)((pass & 1) * modules + module) * p.lanes * W * p.dim + ((size_t)me.lane * W + w) * p.dim + row;
                            if (LINK) stamp((int)(pass & 1) * modules + module, me.lane, w, row, tag);
                            if constexpr (SEVERAL) store_two_to_others(OBUF, at, tagged(__float_as_uint(o0), tag), tagged(__float_as_uint(o1), tag));
                            store_word((u64*)p.obuf + at, tagged(__float_as_uint(o0), tag));
                            store_word((u64*)p.obuf + at + 1, tagged(__float_as_uint(o1), tag));
                        };
                        if (sender) {
                            send();
                            continue;
                        }
                        // The stream, which this lane waits for, goes first, unless others wait for what is put out here.
                        if (!SEVERAL && waited_for) send();
                        float x0 = __fmaf_rn(step.own, o0, s[0]), x1 = __fmaf_rn(step.own, o1, s[1]);
                        if (lands) {
                            x0 += landing[w * p.max_dim_rows + local];
                            x1 += landing[w * p.max_dim_rows + local + 1];
                        }
                        if (Model::lanes > 1 && step.others != 0.0f) {
                            const float2 y = sum_others<W>((int)(pass & 1) * modules + module, me.lane, w, row, tag);
                            x0 = __fmaf_rn(step.others, y.x, x0);
                            x1 = __fmaf_rn(step.others, y.y, x1);
                        }
                        s[0] = x0;
                        s[1] = x1;
                        const float k = pick<W>(scale, w);
                        u64* to = (u64*)p.xbuf + ((size_t)((module & 1) * p.lanes + me.lane) * W + w) * (p.dim / 2) + row / 2;
                        publish_word(to, XBUF_WORDS, tagged(pack_halves(x0 * k, x1 * k), tag));
                        if (!SEVERAL && step.sends && !waited_for) send();
                    }
                }
            });
            if (kind != 4 && !(kind & 1)) {
#pragma unroll
                for (int w = 0; w < W; w++)
                    if (w < rows) inverse[w] = inverse_of(w);
                if (module == 0) first_inverse = pick<W>(inverse, rows - 1);
            }
            if (lands) {
                __syncwarp();
                if ((tid & 31) == 0) barrier_arrive(misc.late_empty + (landed & 1));
                landed++;
            }
            MARK(5 + kind);
        }
        fed += rows;
        at0 += rows;
        if (!heads) {
            cache_rows(misc, pass);
            if (any_consumer(*(volatile int*)&gone)) break;
            if (fed < pending) continue;
            if (blockIdx.x == 0 && tid == 0) {
                ((Relay*)p.relay)->ended = 1;
                if constexpr (SEVERAL)
                    if (this_block() != 0) break;
                emit_token(misc.emitted, 0, 0.0f, FED);
            }
            break;
        }
        sync_consumers();
        if (fed < pending) continue;  // a run one by one: no choice yet
        const int head_first = (int)(schedule[4 * p.layers] >> 16) * 8, head_units = (int)(schedule[4 * p.layers] & 0xffff);
        const int first_id = (p.head_grid ? 0 : lane0 * p.head_rows) + head_first;
        const int head_rows = max(0, min(head_units * 8, p.head_rows - head_first));
        if (is_judged()) {
            u32 spins = 0;
            while (!barrier_try(&misc.judged, choices & 1))
                if (give_up(spins)) break;
        }
        const Choice c = choose(*(HeadScratch*)(sm + p.off_attn), (float*)(sm + p.off_logits), (float*)(sm + p.off_z), (u16*)(sm + p.off_red), first_id, head_rows, at0,
                                choices & 1, (this_block() == 0 ? *(volatile u32*)&misc.aborted : 0u) | (SEVERAL && *(volatile int*)&gone ? LOST : 0u), tag0 + modules);
        MARK(10);
        const int emitted = misc.emitted;
        const Outcome next = outcome_of(c, &misc.cut, emitted, at0);
        if (any_consumer(*(volatile int*)&gone)) break;
        if constexpr (SEVERAL)
            if (c.flags & LOST) break;  // alike in all threads, from the same candidates
        emit_choice(c, next, emitted, first_id, head_rows);
        pending = 1 + next.count;
        fed = 0;
        choices++;
        const bool hands_over = p.hand_over == 2 || (p.hand_over == 1 && pending > 1);
        if (tid == 0) {
            if (next.reason != RUNNING) {
                if (blockIdx.x == 0) ((Relay*)p.relay)->ended = 1;
            } else if (hands_over) {
                if (blockIdx.x == 0) hand_over(misc.grammar, misc.passes + pass + 1, at0, emitted + pending, c.id, next.run, pending);
            } else {
                misc.token = c.id;
                misc.run = next.run;
                misc.emitted = emitted + pending;
                if (is_judged()) barrier_arrive(&misc.asked);
            }
        }
        if (next.reason != RUNNING || hands_over) break;
    }
#ifdef KOGAGENT_PROFILE
    if (tid == 0 && p.profile)
        for (int i = 0; i < PROFILE_SLOTS; i++) ((u64*)p.profile)[blockIdx.x * PROFILE_SLOTS + i] = timed[i];
#endif
    if constexpr (SLACK) tell_slack();
}

// Streams tape and cached keys in the order of use until told to stop, then waits for the copies under way. W 0: the
// tape alone.
template <int W>
__device__ void produce(Ring ring, const u32* schedule, Misc& misc) {
    const int lane = threadIdx.x & 31;
    const Place me = {this_block() / p.group, this_block() % p.group};
    const int* windows = (const int*)(schedule + 4 * p.layers + 1);
    volatile int* quit = &misc.quit;
    u64 once = 0, again = 0;  // how level 2 keeps weights and keys
#if __CUDA_ARCH__ >= 900
    once = evict_first_policy();
    again = evict_normal_policy();
#endif
    int fed = 0, at = misc.position, pass = 0;
    for (bool going = true; going; pass++) {
        const char* tape = (const char*)p.tape + p.tape_stride * blockIdx.x;
        const bool feeding = fed < misc.pending;
        const int rows = feeding ? W > 0 ? min(W, misc.pending - fed) : misc.pending : 1;
        if (feeding) fed += rows;
#pragma unroll 1
        for (int i = 0; i < 4 * p.layers && going; i++) {
            if (W > 0 && (i & 3) == 1) {
                if (i == 1) {  // rows of the passes before are in the cache
                    while (read_in_block(&misc.cached) < pass && going) going = !*quit;
                    going = __all_sync(~0u, going);
                    copies_after_stores();
                }
                going = going && stream_keys(ring, me, i >> 2, at, rows, windows[i >> 2], lane, quit, again);
            }
            going = going && stream_phase<(W > 0)>(ring, p.shape[i & 3], (int)(schedule[i] & 0xffff), tape, lane, quit, once);
        }
        at += rows;
        if (!going || (feeding && fed < misc.pending)) continue;
        if (feeding && !p.want_head) break;
        going = stream_phase<(W > 0)>(ring, p.shape[4], (int)(schedule[4 * p.layers] & 0xffff), tape, lane, quit, once);
    }
    ring_settle(ring);
}

// Takes and gives back every stage and does nothing else: what the memory allows. Max_tokens passes.
__device__ void drain(Ring ring, const u32* schedule) {
    for (int pass = 0; pass < p.max_tokens; pass++)
        for (int phase = 0; phase <= 4 * p.layers; phase++) {
            const Shape& sh = p.shape[phase == 4 * p.layers ? 4 : phase & 3];
            const int units = (int)(schedule[phase] & 0xffff);
            const int stages = sh.parts > 1 ? units * sh.parts : (units + sh.per_stage - 1) / sh.per_stage;
            for (int i = 0; i < stages; i++) {
                ring_take(ring);
                ring_release(ring, threadIdx.x & 31);
            }
        }
}

// W 0: the stream alone.
template <int W>
__device__ void run_block(char* sm) {
    const Relay& relay = *(const Relay*)p.relay;
    if (W > 0 && (relay.ended || *(const u32*)p.dead || (p.hand_over && (relay.pending > 1) != (p.hand_over == 2)))) return;
    Misc& misc = *(Misc*)(sm + p.off_misc);
    Ring ring = {sm + p.off_ring, misc.full, misc.empty, p.stage_bytes, p.stages, 0, 0, 0, cycles()};
    u32* schedule = (u32*)(sm + p.off_schedule);
    const int phases = 4 * p.layers + 1;
    if (threadIdx.x == 0) {
        misc.quit = gone = 0;
        misc.aborted = 0;
        misc.progress = misc.cached = 0;
        for (int i = 0; i < 2; i++) {
            barrier_init(misc.late_full + i, 1);
            barrier_init(misc.late_empty + i, WARPS);
        }
        barrier_init(&misc.asked, 1);
        barrier_init(&misc.judged, JUDGES);
        misc.pending = 1;
        if constexpr (W > 0) {  // the stream alone belongs to no segment: what the relay holds means nothing to it
            misc.pending = relay.pending;
            misc.position = relay.position;
            misc.passes = relay.passes;
            misc.emitted = relay.emitted;
            misc.token = relay.token;
            misc.run = relay.run;
            misc.grammar.state = relay.state;
            misc.grammar.top = relay.top;
            for (int i = 0; i <= relay.top; i++) {
                misc.grammar.site[i] = relay.site[i];
                misc.grammar.count[i] = relay.count[i];
            }
        }
        ring_init(ring);
        if constexpr (SLACK) start_slack();
        if constexpr (SEVERAL && W > 0) meet_devices(p.tag_base + misc.passes * (2 * p.layers + 64) + 2 * p.layers + 63);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < phases; i += blockDim.x) schedule[i] = ((const u32*)p.schedule)[blockIdx.x * phases + i];
#pragma unroll 1
    for (int i = threadIdx.x; i < p.layers; i += blockDim.x) schedule[phases + i] = ((const Step*)p.steps)[2 * i].window;
    __syncthreads();
    const int warp = threadIdx.x >> 5;
    if (warp < WARPS) {
        take_registers();
        if constexpr (W == 0)
            drain(ring, schedule);
        else
            consume<W>(sm, ring, misc);
        sync_consumers();
        if (threadIdx.x == 0) *(volatile int*)&misc.quit = 1;
    } else {
        give_registers();
        if (warp == WARPS) produce<W>(ring, schedule, misc);
        if constexpr (W > 0) {
            if (warp == WARPS + 1) help<W>(misc, (float*)(sm + p.off_late), schedule);
            if (warp > WARPS + 1 && is_judged() && p.want_head) {
                const int first = (int)(schedule[4 * p.layers] >> 16) * 8, units = (int)(schedule[4 * p.layers] & 0xffff);
                const int first_id = (p.head_grid ? 0 : (int)((u32)this_block() / p.group) * p.head_rows) + first;
                const int rows = max(0, min(units * 8, p.head_rows - first));
                if (p.guided)
                    follow_host(misc, (u32*)(sm + p.off_z), first_id, rows);
                else
                    judge(misc, (u32*)(sm + p.off_z), first_id, rows);
            }
            if constexpr (SLACK && W == 1)
                if (warp == WARPS + 2 && !is_judged()) watch(misc, schedule);
        }
    }
}

extern __shared__ __align__(128) char shared_memory[];

extern "C" __global__ void __launch_bounds__((WARPS + 4) * 32, 1) decode() { run_block<Model::width>(shared_memory); }
extern "C" __global__ void __launch_bounds__((WARPS + 4) * 32, 1) stream_only() { run_block<0>(shared_memory); }

#include "proof.cuh"  // static_asserts written by kernels/params.py
