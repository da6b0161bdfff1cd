// A machine of several devices that runs csrc/monokernel.cu: each thread a fiber, warps by turns in a random order.
#include "monokernel.cu"

#include <sys/mman.h>
#include <algorithm>
#include <random>
#include <vector>

Index threadIdx, blockIdx, blockDim = {384};
char* block_memory;
char shared_memory[1];  // named by the kernel's entries, which the machine does not use

namespace {
constexpr int STACK = 1 << 17, LANES = 32;
constexpr u64 ROUND_NS = 1000;  // one turn of all warps

extern "C" void fiber_switch(void** from, void* to);
asm(R"(
.text
fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

struct Warp;
struct Block;
struct Fiber {
    void* stack = nullptr;
    Warp* warp;
    int thread;
    bool done = false;
};
struct Warp {
    Block* block;
    Fiber fibers[LANES];
    char brought[2][LANES][32];
    int came = 0, alive = LANES;
    u32 turn = 0;
    void complete() {
        if (alive && came == alive) came = 0, turn++;
    }
};
struct Barrier {
    int came = 0;
    u32 turn = 0;
    bool any[2] = {};
};
struct Block {
    int device, index;
    char* memory;
    std::vector<char> statics;
    Barrier barriers[3];
};
struct Static {
    void* at;
    size_t size;
};
const std::vector<Static>& statics() {
    static const std::vector<Static> all = {
        {&gone, sizeof gone},
#ifdef KOGAGENT_SLACK
        {arrived, sizeof arrived}, {slack, sizeof slack},
#endif
    };
    return all;
}

Fiber* now;
Block* here;
void* scheduler;
u64 time_ns;
bool progressed, waited;

void yield() { fiber_switch(&now->stack, scheduler); }
void start() {
    run_block<Model::width>(now->warp->block->memory);
    now->done = true;
    now->warp->alive--;
    now->warp->complete();
    yield();
}
void enter(Block* b, const Params* const* params) {
    if (b == here) return;
    if (here) {
        size_t at = 0;
        for (const Static& s : statics()) memcpy(here->statics.data() + at, s.at, s.size), at += s.size;
    }
    size_t at = 0;
    for (const Static& s : statics()) memcpy(s.at, b->statics.data() + at, s.size), at += s.size;
    if (!here || here->device != b->device) memcpy((void*)&p, params[b->device], sizeof p);
    here = b;
    blockIdx.x = b->index;
    block_memory = b->memory;
}
}  // namespace

void machine_wait() {
    waited = true;
    yield();
}
u64 machine_time() { return time_ns; }
static void meet(Warp& w, const void* mine, int size) {
    const u32 turn = w.turn;
    memcpy(w.brought[turn & 1][now->thread & 31], mine, size);
    w.came++;
    w.complete();
    progressed = true;
    while (w.turn == turn) yield();
}
u64 warp_swap(u64 mine, int from) {
    Warp& w = *now->warp;
    const u32 turn = w.turn;
    meet(w, &mine, 8);
    u64 v;
    memcpy(&v, w.brought[turn & 1][from], 8);
    return v;
}
void warp_gather(const void* mine, int size, void* all) {
    Warp& w = *now->warp;
    const u32 turn = w.turn;
    meet(w, mine, size);
    for (int i = 0; i < LANES; i++) memcpy((char*)all + i * size, w.brought[turn & 1][i], size);
}
bool block_any(int which, int threads, bool mine) {
    Barrier& b = now->warp->block->barriers[which];
    const u32 turn = b.turn;
    b.any[turn & 1] |= mine;
    progressed = true;
    if (++b.came == threads) {
        b.came = 0;
        b.any[~turn & 1] = false;
        b.turn++;
    }
    while (b.turn == turn) yield();
    return b.any[turn & 1];
}
void block_barrier(int which, int threads) { block_any(which, threads, false); }

extern "C" {
unsigned params_size() { return sizeof(Params); }

// One launch on every device at once; params [devices]. From round `stall_round` on nothing of device `stalled` runs.
// Returns the rounds, or -1 if it has not ended after `most` of them.
long run_machine(int devices, const Params* const* params, int shared_bytes, unsigned seed, int stalled, long stall_round, long most) {
    std::mt19937 random(seed);
    std::vector<Block*> blocks;
    std::vector<Warp*> warps;
    size_t kept = 0;
    for (const Static& s : statics()) kept += s.size;
    const size_t fibers = (size_t)devices * Model::device_blocks * 384;
    char* stacks = (char*)mmap(nullptr, fibers * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return -2;
    char* stack = stacks;
    for (int d = 0; d < devices; d++)
        for (int i = 0; i < Model::device_blocks; i++) {
            Block* b = new Block{d, i, (char*)aligned_alloc(128, (shared_bytes + 127) / 128 * 128), std::vector<char>(kept), {}};
            memset(b->memory, 0xff, shared_bytes);  // NaN where nothing was written
            blocks.push_back(b);
            for (int w = 0; w < 12; w++) {
                Warp* warp = new Warp;
                warp->block = b;
                for (int lane = 0; lane < LANES; lane++, stack += STACK) {
                    Fiber& f = warp->fibers[lane];
                    f.warp = warp;
                    f.thread = w * LANES + lane;
                    void** top = (void**)(stack + STACK) - 2;  // aligned as behind a call
                    *top = (void*)start;
                    f.stack = top - 6;
                }
                warps.push_back(warp);
            }
        }
    here = nullptr;
    long rounds = 0;
    size_t left = warps.size();
    while (left && rounds < most) {
        std::shuffle(warps.begin(), warps.end(), random);
        left = 0;
        for (Warp* w : warps) {
            if (!w->alive || (w->block->device == stalled && rounds >= stall_round)) continue;
            left++;
            enter(w->block, params);
            do {
                progressed = waited = false;
                for (Fiber& f : w->fibers) {
                    if (f.done) continue;
                    now = &f;
                    threadIdx.x = f.thread;
                    fiber_switch(&scheduler, f.stack);
                }
            } while (progressed && !waited && w->alive);
        }
        rounds++;
        time_ns += ROUND_NS;
    }
    for (Warp* w : warps) delete w;
    for (Block* b : blocks) free(b->memory), delete b;
    munmap(stacks, fibers * STACK);
    return left ? -1 : rounds;
}
}
