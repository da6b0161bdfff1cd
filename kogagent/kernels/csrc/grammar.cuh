// What a grammar allows, on the tables of engine/grammar/tables.py: steps, tokens, the verdict on a token.
// Nothing here knows blocks, warps or the model. A host compiler can run this file: tests hold it to the matcher.
#pragma once
#include "params.cuh"

constexpr int FINISHED = 1, RETURN = 2;          // states
constexpr u32 PUSH = 0x8000, COUNT = 0x4000, TARGET = 0x3fff;  // of a move
constexpr u32 END = 256, NO_CODE = 0xffff;       // codes
constexpr int OWN = FRAMES - 1;                  // frames a walk can add
constexpr u32 NO_ROOM = 0x7fff;                  // no count leaves a certain choice in this state
constexpr u32 FAR = 0xffffffffu, LOW = 0xfffffffeu;  // classes of counts, as walker.py forms them

constexpr int VERDICT_BITS = 13;
// What is known of a legal token: bits below an id in a candidate.
enum Verdict : u32 {
    ILLEGAL = 0,
    FREE = 1,   // there is a choice behind it
    ASK = 2,    // what follows it is forced, and the host has not said yet by which ids
    LAST = 3,   // the text ends with it
    RUN = 4,    // RUN + i: the ids of run i follow
    ANSWER_RUN = 0x1fff,  // those of the host's last answer follow
};

// A state and its frames, the lowest first, unchanged while threads walk from it.
// below[i]: what the frames under frame i contribute to a key.
struct Configuration {
    int state, top;
    u16 site[FRAMES];
    u32 count[FRAMES];
    u64 below[FRAMES];
};

// One thread's way from a configuration: its frames below `low`, then its own, then the top one.
struct Walk {
    int state;
    u32 info;           // of the state
    u32 site, count, least, most;  // of the top frame
    int low, pushed;
    u32 base_count;     // count of the lowest of its own frames, which was the configuration's
    u32 own[OWN];     // site << 18 | count, the newest first
};

__device__ __forceinline__ u64 splitmix64(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ u32 info_of(const Grammar& g, int state) { return __ldg((const u32*)g.states + state); }
__device__ __forceinline__ u32 need_of(u32 info) { return info & 0xffff; }
__device__ __forceinline__ u32 choice_room_of(u32 info) { return info >> 16 & 0x7fff; }
__device__ __forceinline__ bool is_final(u32 info) { return info >> 31; }

__device__ __forceinline__ void set_top(const Grammar& g, Walk& w, u32 site, u32 count) {
    const uint2 bounds = __ldg((const uint2*)g.bounds + site);
    w.site = site;
    w.count = count;
    w.least = bounds.x;
    w.most = bounds.y;
}
__device__ __forceinline__ u32 calls(const Grammar& g, u32 site) { return __ldg((const u32*)g.sites + site); }  // entry | follow << 16

__device__ __forceinline__ Walk walk_from(const Grammar& g, const Configuration& c) {
    Walk w;
    w.state = c.state;
    w.info = info_of(g, c.state);
    set_top(g, w, c.site[c.top], c.count[c.top]);
    w.low = c.top;
    w.pushed = 0;
    w.base_count = 0;
#pragma unroll
    for (int i = 0; i < OWN; i++) w.own[i] = 0;
    return w;
}

// Leaves the top frame, where its count has reached the least one.
__device__ __forceinline__ bool pop(const Grammar& g, const Configuration& c, Walk& w) {
    if (w.low + w.pushed == 0 || w.count < w.least) return false;
    w.state = (int)(calls(g, w.site) >> 16);
    w.info = info_of(g, w.state);
    if (w.pushed) {
        const u32 frame = w.own[0];
#pragma unroll
        for (int i = 0; i + 1 < OWN; i++) w.own[i] = w.own[i + 1];
        w.pushed--;
        set_top(g, w, frame >> 18, w.pushed ? frame & 0x3ffff : w.base_count);
    } else {
        w.low--;
        set_top(g, w, c.site[w.low], c.count[w.low]);
    }
    return true;
}

__device__ __forceinline__ u32 move_of(const Grammar& g, int state, u32 code) {
    if (state < g.lone_states) {
        const u32 entry = __ldg((const u32*)g.lone + state);
        return (entry & 0xffff) == code ? entry >> 16 : 0;
    }
    const u32 k = code < END ? (u32)__ldg((const u8*)g.byte_class + code) : g.end_class + code - END;
    return __ldg((const u16*)g.moves + (size_t)(state - g.lone_states) * g.classes + k);
}

// One symbol, as automaton.py says it. False where it is illegal; the walk is lost then.
__device__ __forceinline__ bool step(const Grammar& g, const Configuration& c, Walk& w, u32 code) {
    u32 move;
    while (!(move = move_of(g, w.state, code)))
        if (!is_final(w.info) || !pop(g, c, w)) return false;
    const u32 target = move & TARGET;
    u32 need = 0;
    if (!(move & PUSH)) {
        w.info = info_of(g, (int)target);
        need = need_of(w.info);
    }
    if (move & COUNT) w.count++;
    if ((move & COUNT || need) && (u64)w.count + need > w.most) return false;
    if (move & PUSH) {
        if (w.low + w.pushed >= OWN) return false;  // cannot be: the tables' depth is checked when they are made
#pragma unroll
        for (int i = OWN - 1; i > 0; i--) w.own[i] = w.own[i - 1];
        w.own[0] = w.site << 18 | (w.pushed ? w.count : 0);
        if (!w.pushed) w.base_count = w.count;
        w.pushed++;
        set_top(g, w, target, 0);
        w.state = (int)(calls(g, target) & 0xffff);
        w.info = info_of(g, w.state);
        return true;
    }
    w.state = (int)target;
    while (w.state == RETURN)
        if (!pop(g, c, w)) return false;
    return true;
}

// The symbols of one id. False where it is illegal.
__device__ __forceinline__ bool take(const Grammar& g, const Configuration& c, Walk& w, int id) {
    if (id >= g.vocab) return false;
    const u32 word = __ldg((const u32*)g.tokens + id);
    const int length = (int)(word >> 24);
    if (length == 0) {  // 1: an end id; 2: a special id; 0: nothing spells it
        u32 code = (word & 0xffffff) == 1 ? END : NO_CODE;
        if ((word & 0xffffff) == 2)
            for (int i = 0; i < g.n_special; i++)
                if ((int)__ldg((const u32*)g.special_ids + i) == id) code = END + 1 + i;
        return code != NO_CODE && step(g, c, w, code);
    }
    const u8* bytes = (const u8*)g.bytes + (word & 0xffffff);
#pragma unroll 1
    for (int i = 0; i < length; i++)
        if (!step(g, c, w, __ldg(bytes + i))) return false;
    return true;
}

// Whether exactly one symbol is legal.
__device__ __forceinline__ bool is_forced(const Grammar& g, const Configuration& c, const Walk& w) {
    const u32 room = choice_room_of(w.info);
    if (room != NO_ROOM && w.most - w.count >= room) return false;
    u32 code = 0, last = END + g.n_special;
    if (w.state < g.lone_states && !is_final(w.info)) code = last = __ldg((const u32*)g.lone + w.state) & 0xffff;
    if (code == NO_CODE) return false;
    int found = 0;
#pragma unroll 1
    for (; code <= last && found < 2; code++) {
        Walk other = w;
        found += step(g, c, other, code);
    }
    return found == 1;
}

// Adds a frame to a key. Counts are replaced by classes that no token can tell apart; the lowest frame has none.
__device__ __forceinline__ u64 add_frame(const Grammar& g, u64 key, bool lowest, u32 site, u32 count) {
    u32 shown = count;
    if (!lowest) {
        const uint2 bounds = __ldg((const uint2*)g.bounds + site);
        if ((u64)count + g.reach < bounds.x)
            shown = LOW;
        else if (count >= bounds.x && bounds.y - count >= (u32)g.margin)
            shown = FAR;
    }
    return splitmix64(key ^ ((u64)shown << 32 | site));
}
// Names what decides about forced ids: the state and the frames with their classes. Never 0.
__device__ __forceinline__ u64 key_of(const Grammar& g, const Configuration& c, const Walk& w) {
    u64 key = c.below[w.low];
#pragma unroll
    for (int i = OWN - 1; i >= 0; i--)
        if (i < w.pushed) {
            const bool first = i == w.pushed - 1;
            key = add_frame(g, key, first && w.low == 0, w.own[i] >> 18, first ? w.base_count : w.own[i] & 0x3ffff);
        }
    key = add_frame(g, key, w.low + w.pushed == 0, w.site, w.count);
    key = splitmix64(key ^ (u64)w.state);
    return key ? key : 1;
}

__device__ __forceinline__ u32 verdict_of(const Grammar& g, const Configuration& c, int id) {
    Walk w = walk_from(g, c);
    if (!take(g, c, w, id)) return ILLEGAL;
    if (w.state == FINISHED) return LAST;
    if (!is_forced(g, c, w)) return FREE;
    const u64 key = key_of(g, c, w);
#pragma unroll 1
    for (u32 i = (u32)key;; i++) {  // never full
        const u64 found = load_word_anywhere((const u64*)g.known + (i & g.slots_mask));
        if (found >> VERDICT_BITS == key >> VERDICT_BITS) return (u32)found & ((1u << VERDICT_BITS) - 1);
        if (!found) return ASK;
    }
}

// Fills `below`. One thread.
__device__ __forceinline__ void summarise(const Grammar& g, Configuration& c) {
    c.below[0] = 0;
    for (int i = 0; i < c.top; i++) c.below[i + 1] = add_frame(g, c.below[i], i == 0, c.site[i], c.count[i]);
}
// Moves a configuration past one legal id, `below` left to be filled. One thread.
__device__ __forceinline__ void advance(const Grammar& g, Configuration& c, int id) {
    Walk w = walk_from(g, c);
    take(g, c, w, id);
    int top = w.low;
#pragma unroll
    for (int i = OWN - 1; i >= 0; i--)
        if (i < w.pushed) {
            c.site[top] = (u16)(w.own[i] >> 18);
            c.count[top] = i == w.pushed - 1 ? w.base_count : w.own[i] & 0x3ffff;
            top++;
        }
    c.site[top] = (u16)w.site;
    c.count[top] = w.count;
    c.top = top;
    c.state = w.state;
}
