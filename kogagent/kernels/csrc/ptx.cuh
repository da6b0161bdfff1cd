// Every inline PTX of the kernel, named by effect.
#pragma once
#include "types.cuh"

__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// ── mbarriers and bulk copies ──
__device__ __forceinline__ void barrier_init(u64* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(b)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(b)) : "memory");
}
__device__ __forceinline__ bool barrier_try(u64* b, int parity) {
    u32 done;
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(smem_address(b)), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(smem_address(b)), "r"(parity)
        : "memory");
#endif
    return done != 0;
}
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void barriers_visible_to_copies() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ u64 evict_first_policy() {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ u64 evict_normal_policy() {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
// Arrives; the barrier also waits for `bytes` of copies.
__device__ __forceinline__ void barrier_expect(u64* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(b)), "r"(bytes) : "memory");
}
// Starts copying `bytes` to shared memory; the barrier counts them.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, int bytes, u64* full, u64 policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        ::"r"(smem_address(to)), "l"(from), "r"(bytes), "r"(smem_address(full)), "l"(policy)
        : "memory");
}
#else
__device__ __forceinline__ void barriers_visible_to_copies() {}
__device__ __forceinline__ void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_address(to)), "l"(from) : "memory");
}
// The barrier counts this thread once its copies so far have landed.
__device__ __forceinline__ void arrive_when_copied(u64* full) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem_address(full)) : "memory");
}
#endif

// What this thread has stored to global memory is there for copies into shared memory that start after it says so.
__device__ __forceinline__ void stores_before_copies() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}
__device__ __forceinline__ void copies_after_stores() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}
__device__ __forceinline__ void publish_in_block(int* to, int v) {
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(smem_address(to)), "r"(v) : "memory");
}
__device__ __forceinline__ int read_in_block(const int* from) {
    int v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(smem_address(from)) : "memory");
    return v;
}

// ── tagged words ──
__device__ __forceinline__ u64 tagged(u32 value, u32 tag) { return (u64)tag << 32 | value; }
__device__ __forceinline__ void store_word(u64* p, u64 v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ u64 load_word(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void load_two_words(const u64* p, u64& a, u64& b) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
// Words of another device or the host: they see what is stored so, and what they store is seen.
__device__ __forceinline__ void store_two_words_anywhere(u64* p, u64 a, u64 b) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory");
}
__device__ __forceinline__ u64 load_word_anywhere(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void load_two_words_anywhere(const u64* p, u64& a, u64& b) {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
__device__ __forceinline__ void store_word_anywhere(u64* p, u64 v) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ u32 load_from_host(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
// What the host stored before this word is there for what is read after it.
__device__ __forceinline__ u64 load_news_from_host(const u64* p) {
    u64 v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void prefetch_level2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
__device__ __forceinline__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
__device__ __forceinline__ u32 cycles() {
    u32 t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t));
    return t;
}

// ── arithmetic ──
// A half is the 16-bit type of weights, activations and cache: FP16, or BF16 where KOGAGENT_BF16 is defined.
#ifdef KOGAGENT_BF16
#define HALF "bf16"
#else
#define HALF "f16"
#endif
// Bits of two halves; lo lies at the lower address.
__device__ __forceinline__ u32 pack_halves(float lo, float hi) {
    u32 d;
    asm("cvt.rn." HALF "x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
__device__ __forceinline__ float2 unpack_halves(u32 v) {
#ifdef KOGAGENT_BF16
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
#else
    float2 r;
    asm("{\n.reg .f16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
        : "=f"(r.x), "=f"(r.y)
        : "r"(v));
    return r;
#endif
}
// Volatile, so that loads stay ahead of the products that use them.
__device__ __forceinline__ uint4 load_shared_16(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ uint2 load_shared_8(u32 address) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}
// 8 x 8 halves from the 16-byte rows at each lane's address, transposed: lane 4g+t gets column g of rows 2t and 2t+1.
// Lanes 8i .. 8i+7 give the rows of matrix i.
__device__ __forceinline__ uint4 load_shared_transposed_4(u32 address) {
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void load_shared_transposed_2(u32 address, u32& a, u32& b) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
}
// c[16 x 8] += a[16 x 16] b[16 x 8], halves in, FP32 out.
__device__ __forceinline__ void multiply_tile(float (&c)[4], const uint4& a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ── threads ──
// The same value, but as if new here: what is computed from it is not carried in registers through a whole pass.
__device__ __forceinline__ int as_new(int v) {
    asm volatile("mov.b32 %0, %0;" : "+r"(v));
    return v;
}
// Registers move from the warps that stream to those that compute: nothing of these may live in local memory,
// whose misses wait behind the weight stream. Both sides of one warpgroup branch must ask.
#if __CUDA_ARCH__ == 900 || __CUDA_ARCH__ >= 1000
__device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 216;"); }
__device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 72;"); }
#else
__device__ __forceinline__ void take_registers() {}
__device__ __forceinline__ void give_registers() {}
#endif
constexpr int WARPS = 8;  // that compute
constexpr int WARP_THREADS = 32;
constexpr int THREADS = WARPS * WARP_THREADS;  // that compute
__device__ __forceinline__ void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
constexpr int JUDGES = 64;  // threads that keep the grammar
__device__ __forceinline__ void sync_judges() { asm volatile("bar.sync 2, %0;" ::"n"(JUDGES) : "memory"); }
// Barrier and "or" over the consumer threads, so that all take the same branch.
__device__ __forceinline__ bool any_consumer(bool mine) {
    u32 any;
    asm volatile(
        "{\n.reg .pred p, q;\nsetp.ne.u32 p, %1, 0;\nbar.red.or.pred q, 1, %2, p;\nselp.u32 %0, 1, 0, q;\n}"
        : "=r"(any)
        : "r"((u32)mine), "n"(THREADS)
        : "memory");
    return any != 0;
}
__device__ __forceinline__ void sleep_briefly() { asm volatile("nanosleep.u32 200;"); }
