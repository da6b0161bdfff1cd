// A random model run by a team of threads, for the sanitizers: every type, few and many rows, greedy segments.
// Not part of the library: scripts/sanitize_native.sh builds it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "native.h"

namespace {

uint32_t state = 12345;
float next() {
  state = state * 1664525u + 1013904223u;
  return (float(state >> 8) / float(1 << 24) - 0.5f) * 0.2f;
}

// n numbers in the type a model packs from
std::vector<uint8_t> numbers(size_t n, uint32_t type) {
  std::vector<uint8_t> out(n * 4);
  for (size_t i = 0; i < n; i++) {
    const float f = next();
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint16_t bf16 = uint16_t(bits >> 16);
    const uint16_t f16 = uint16_t((bits >> 16 & 0x8000u) | 0x2c00u | (bits >> 13 & 0x3ffu));
    if (type == KOG_F16) memcpy(&out[2 * i], &f16, 2);
    else if (type == KOG_BF16) memcpy(&out[2 * i], &bf16, 2);
    else memcpy(&out[4 * i], &f, 4);
  }
  return out;
}

int run(uint32_t type, uint32_t cache, uint32_t threads) {
  const uint32_t V = 150, D = 70, N = 3, L = 2, H = 6, K = 2, h = 10, F = 84, room = 60;
  const double frequencies[h / 2] = {1.0, 0.5, 0.2, 0.1, 0.05};
  const uint32_t windows[N] = {0, 7, 20}, slots[2 * N] = {0, 1, 0, 1, 0, 1};
  const uint32_t first[2 * N + 1] = {0, 1, 2, 3, 4, 5, 6};
  const float own[2 * N] = {1, 1, 1, 1, 1, 1}, others[2 * N] = {1, 1, 0, 1, 0, 1};
  kog_shape s{V, D, N, L, H, K, h, F, KOG_HEAD_SPLIT, type, cache, threads, 2, 1e-5f,
              frequencies, windows, slots, first, slots, own, others};
  kog_model* model = kog_open(&s);
  if (model == nullptr) return 1;
  const uint32_t q = H / L * h, qkv = (H + 2 * K) / L * h, f = F / L;
  const std::vector<float> ones(D > L * qkv ? D : L * qkv, 1.0f);
  for (uint32_t n = 0; n < N; n++) {
    const auto a = numbers(size_t(L) * qkv * D, type), b = numbers(size_t(L) * D * q, type);
    const auto c = numbers(size_t(L) * f * D, type), d = numbers(size_t(L) * D * f, type);
    kog_pack(model, n, KOG_QKV, a.data(), nullptr);
    kog_pack(model, n, KOG_OUT, b.data(), nullptr);
    kog_pack(model, n, KOG_GATE_UP, c.data(), c.data());
    kog_pack(model, n, KOG_DOWN, d.data(), nullptr);
    kog_set_vectors(model, n, ones.data(), ones.data(), ones.data(), ones.data(), ones.data());
  }
  kog_set_norm(model, ones.data());
  const auto head = numbers(size_t(V) * D, type);
  kog_pack_head(model, head.data());
  const size_t size = cache == KOG_F32 ? 4 : 2;
  std::vector<uint8_t> keys(size_t(N) * K * ((room + 15) / 16) * h * 16 * size);
  std::vector<uint8_t> values(size_t(N) * K * room * 16 * size);
  std::vector<uint32_t> ids(40);
  for (uint32_t i = 0; i < 40; i++) ids[i] = i * 7 % V;
  std::vector<float> logits(size_t(40) * V);
  const char* programs[] = {"avx512", "avx2", "portable"};
  int failed = 0;
  for (const char* program : programs) {
    if (!kog_choose(model, program)) continue;
    failed |= kog_run(model, keys.data(), values.data(), room, 0, ids.data(), 40, KOG_ALL, logits.data());
    failed |= kog_run(model, keys.data(), values.data(), room, 20, ids.data(), 3, KOG_LAST, logits.data());
    std::vector<uint8_t> stops(V, 0);
    uint8_t stop = 0;
    uint32_t out[64];
    float logprobs[64];
    kog_greedy plan{V, 64, stops.data(), &stop, 100.0, logits.data(), out, logprobs, 0, 0, 0};
    failed |= kog_run_greedy(model, keys.data(), values.data(), room, 23, ids.data(), 2, &plan);
    failed |= plan.broken != 0 || plan.emitted != room - 24;
  }
  kog_close(model);
  return failed;
}

}  // namespace

int main() {
  int failed = 0;
  for (uint32_t type = KOG_F32; type <= KOG_I8; type++)
    for (uint32_t threads = 1; threads <= 3; threads++) failed |= run(type, threads == 2 ? KOG_F16 : KOG_F32, threads);
  puts(failed ? "failed" : "ran clean");
  return failed;
}
