// Random models run by teams of threads with every instruction set this processor has: for the sanitizers, and
// to see that all sets compute the same. Not part of the library: scripts/check_native.sh builds it.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <thread>
#include <vector>

#include "deal.h"
#include "native.h"
#include "packed.h"
#include "rows.h"
#include "team.h"
#include "walker.h"

namespace {

const char* const kPrograms[] = {"portable", "avx512_vnni", "avx512", "avx2", "neon_dot", "neon"};

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

// Rows of random blocks of GGML's `kind`, of small finite scales.
std::vector<uint8_t> blocks(size_t rows, uint32_t in, uint32_t kind) {
  const kog::Blocks& f = *kog::blocks_of(kind);
  std::vector<uint8_t> out(rows * kog::row_bytes(kog::kOfBlocks + kind, in));
  for (uint8_t& byte : out) byte = uint8_t(next() * 1280.0f);
  for (size_t at = 0; at < out.size(); at += f.bytes()) {
    uint8_t* scale = &out[at] + (f.is_super() && !f.has_least ? f.bytes() - 2 : 0);
    const uint16_t half = kog::to_f16((0.2f + next()) / float(f.is_super() ? 64 << f.bits : 1 << f.bits));
    memcpy(scale, &half, 2);
    if (f.has_least) memcpy(scale + 2, &half, 2);
  }
  return out;
}

// What holds blocks of this kind.
uint32_t type_of(uint32_t kind) {
  uint32_t type = KOG_I4;
  while (!kog::holds(type, *kog::blocks_of(kind))) type = type == KOG_K6 ? uint32_t(KOG_I8) : type + 1;
  return type;
}

float difference(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0.0f, off = 0.0f;
  for (size_t i = 0; i < a.size(); i++) {
    if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
    most = fmaxf(most, fabsf(a[i]));
    off = fmaxf(off, fabsf(a[i] - b[i]));
  }
  return off / most;
}

// kinds: of blocks that q, k, v, out, gate, up, down and head are, all of them of type `type` then; empty: numbers.
int run(uint32_t type, uint32_t cache, uint32_t threads, uint32_t L, const std::vector<uint32_t>& kinds = {}) {
  const bool whole = !kinds.empty();  // rows of whole blocks
  const uint32_t V = 150, D = whole ? 256 : 70, N = 3, H = whole ? 8 * L : 6, K = whole ? 2 * L : 2, h = whole ? 32 : 10;
  const uint32_t F = (whole ? 512 : 532) * L, room = 60;
  std::vector<double> frequencies(h / 2);
  for (uint32_t i = 0; i < h / 2; i++) frequencies[i] = pow(0.5, i);
  // Two layers late, as with a delay of one; the first layer lands at once.
  const uint32_t windows[N] = {0, 7, 20}, slots[2 * N] = {0, 1, 2, 3, 0, 1}, free_from[2 * N] = {0, 0, 0, 0, 3, 4};
  const uint32_t first[2 * N + 1] = {0, 1, 2, 4, 6, 8, 10}, source[10] = {0, 1, 2, 0, 3, 1, 4, 2, 5, 3};
  const float own[10] = {1, 1, 1, 0, 1, 0, 1, 0, 1, 0}, others[10] = {1, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  std::vector<uint32_t> types(6 * N + 1, type);
  if (type == KOG_I4) types.back() = L > 1 ? KOG_F16 : KOG_I8;
  for (uint32_t n = 0; n < N && whole; n++)  // as blocks of a kind are held best, but gate and up together
    for (uint32_t i = 0; i < 6; i++) types[6 * n + i] = type_of(kinds[i > 4 ? 6 : i]);
  if (whole) types.back() = type_of(kinds[7]);
  kog_shape s{V, D, N, L, H, K, h, F, L > 1 ? KOG_HEAD_SPLIT : KOG_HEAD_REPLICATE, cache, threads, 4, 1e-5f, types.data(),
              frequencies.data(), windows, slots, free_from, first, source, own, others};
  kog_model* model = kog_open(&s);
  if (model == nullptr) return 1;
  const uint32_t q = H / L * h, kv = K / L * h, qkv = q + 2 * kv, f = F / L;
  const std::vector<float> ones(D > L * qkv ? D : L * qkv, 1.0f);
  const uint32_t given = type >= KOG_I8 ? uint32_t(KOG_F32) : type;
  int failed = 0;
  const auto pack = [&](uint32_t n, uint32_t matrix, uint32_t which, uint32_t in, const std::vector<uint32_t>& rows) {
    std::vector<std::vector<uint8_t>> kept;
    std::vector<kog_tensor> tensors;
    for (uint32_t out : rows) {
      const uint32_t kind = whole ? kinds[which++] : 0;
      kept.push_back(whole ? blocks(size_t(L) * out, in, kind) : numbers(size_t(L) * out * in, type));
      tensors.push_back({whole ? KOG_OF_BLOCKS + kind : given, kept.back().data()});
    }
    const float worst = kog_pack(model, n, matrix, tensors.data());
    failed |= whole ? worst != 0.0f : !isfinite(worst);
  };
  for (uint32_t n = 0; n < N; n++) {
    pack(n, KOG_QKV, 0, D, {q, kv, kv});
    pack(n, KOG_OUT, 3, q, {D});
    pack(n, KOG_GATE_UP, 4, D, {f, f});
    pack(n, KOG_DOWN, 6, f, {D});
    kog_set_vectors(model, n, ones.data(), ones.data(), ones.data(), ones.data(), ones.data());
  }
  kog_set_norm(model, ones.data());
  pack(0, KOG_HEAD, 7, D, {V / L});
  const size_t size = cache == KOG_F32 ? 4 : 2;
  std::vector<uint8_t> keys(size_t(N) * K * ((room + 15) / 16) * h * 16 * size);
  std::vector<uint8_t> values(size_t(N) * K * room * ((h + 15) / 16 * 16) * size);
  std::vector<uint32_t> ids(40);
  for (uint32_t i = 0; i < 40; i++) ids[i] = i * 7 % V;
  std::vector<float> truth[3];
  for (const char* program : kPrograms) {
    if (!kog_choose(model, program)) continue;
    std::vector<float> many(size_t(20) * V), few(size_t(5) * V), one(V);
    failed |= kog_run(model, keys.data(), values.data(), room, 0, ids.data(), 20, KOG_ALL, many.data());
    failed |= kog_run(model, keys.data(), values.data(), room, 20, ids.data(), 5, KOG_ALL, few.data());
    failed |= kog_run(model, keys.data(), values.data(), room, 25, ids.data(), 1, KOG_LAST, one.data());
    const std::vector<float>* found[] = {&many, &few, &one};
    for (uint32_t i = 0; i < 3; i++) {
      if (truth[i].empty()) truth[i] = *found[i];
      const float off = difference(truth[i], *found[i]);
      const float close = type >= KOG_I8 || whole ? 4e-3f : 1e-5f;  // a digit may be rounded the other way
      if (off > (cache == KOG_F32 ? close : 3e-3f)) {
        printf("%s: type %u, %u threads, %u lanes, rows %u: off by %g\n", program, type, threads, L, i, off);
        failed = 1;
      }
    }
    std::vector<uint8_t> stops(V, 0), forced(room + 2);
    uint8_t stop = 0;
    std::vector<uint32_t> row(room + 2);
    std::vector<float> logprobs(room + 2), logits(V);
    row[0] = 3;
    row[1] = 4;
    kog_segment plan{};
    plan.temperature = type == KOG_F32 ? 0.0f : 0.8f;
    plan.top_p = 0.9f;
    plan.min_p_log = -INFINITY;
    plan.penalty = 1.0f;
    plan.top_k = 20;
    plan.legal = V;
    plan.stops = stops.data();
    plan.stop = &stop;
    plan.seconds = 100.0;
    plan.ids = row.data();
    plan.logprobs = logprobs.data();
    plan.forced = forced.data();
    plan.logits = logits.data();
    plan.prompt = plan.filled = 2;
    plan.most = room + 2;
    int why = KOG_GOES_ON;
    while (why == KOG_GOES_ON) why = kog_run_segment(model, keys.data(), values.data(), room, 26, &plan);
    failed |= why != KOG_CONTEXT || plan.filled != room - 26 + 1;
    // Another thread ends a segment.
    plan.filled = plan.prompt = 1;
    plan.ran = plan.passes = 0;
    std::thread stopper([&stop] { __atomic_store_n(&stop, uint8_t(1), __ATOMIC_RELAXED); });
    why = KOG_GOES_ON;
    while (why == KOG_GOES_ON) why = kog_run_segment(model, keys.data(), values.data(), room, 26, &plan);
    stopper.join();
    failed |= why != KOG_CONTEXT && why != KOG_CANCELLED;
    if (type == KOG_F32 && threads == 1 && L == 1) printf("ran %s\n", program);
  }
  kog_close(model);
  return failed;
}

// A thread that is held up now and then: every part runs once a run, whoever takes it.
int held_up() {
  constexpr uint32_t kParts = 4, kRuns = 60;
  kog::Team team(kParts);
  std::vector<uint32_t> first(kParts, 0), second(kParts, 0);
  int failed = 0;
  for (uint32_t n = 1; n <= kRuns; n++) {
    const bool slow = n % 20 < 8;
    team.run([&](uint32_t w) {
      if (slow && team.first(w + 1) == kParts) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      team.each(w, [&](uint32_t t) { first[t]++; });
      team.barrier(w, [] {});
      team.each(w, [&](uint32_t t) { second[t] = first[(t + 1) % kParts]; });
    });
    for (uint32_t t = 0; t < kParts; t++) failed |= first[t] != n || second[t] != n;
  }
  if (failed) puts("a part was left out, or ran twice");
  return failed;
}

// Whoever is free takes the ends of parts: each unit goes to one thread, a part's kept ones to its own.
int dealt_out() {
  constexpr uint32_t kParts = 3, kUnits = 40, kPhases = 300;
  kog::Team team(kParts);
  kog::Deal deal(kParts);
  std::vector<uint32_t> taker[kParts];
  for (auto& units : taker) units.assign(kUnits, 0);
  int failed = 0;
  for (uint32_t n = 1; n <= kPhases; n++) {
    const uint32_t kept = n % 7, least = 1 + n % 4;
    team.run([&](uint32_t w) {
      for (uint32_t i = 0; i < kParts; i++) {
        const uint32_t t = (team.first(w) + i) % kParts;
        const bool own = t >= team.first(w) && t < team.first(w + 1);
        const auto next = [&] {
          return own ? deal.take_own(t, n, kUnits, least, kept) : deal.take_other(t, n, kUnits, least, kept);
        };
        for (kog::Deal::Some some = next(); some.count > 0; some = next())
          for (uint32_t u = some.first; u < some.first + some.count; u++) taker[t][u] += own ? 1 : 1001;
      }
    });
    for (uint32_t t = 0; t < kParts; t++)
      for (uint32_t u = 0; u < kUnits; u++) {
        failed |= taker[t][u] % 1000 != 1 || (u < kept && taker[t][u] != 1);
        taker[t][u] = 0;
      }
  }
  if (failed) puts("a unit was left out, taken twice or taken by another");
  return failed;
}

// Any units of any run are the same blocks, each once, wherever its places begin and end; no place has more than the
// one before, and a place goes on behind itself through the runs of several matrices.
int in_pieces() {
  int failed = 0;
  for (uint32_t grain = 1; grain <= 3; grain++)
    for (uint32_t out = 1; out <= 15 * kog::kBlock; out += 7) {
      kog::Packed first, second;
      std::vector<kog::Ends> ends(1, kog::Ends{});
      for (kog::Packed* m : {&first, &second}) {
        m->lanes = 1;
        m->out = out;
        m->in = 3;
        m->sections = {{0, KOG_F32}};
        m->grain = grain;
        m->cut(1, false, ends);
      }
      const kog::Stream stream(ends[0]);
      const kog::Run &one = first.runs[0][0], &two = second.runs[0][0];
      for (uint32_t p = 0; p < kog::kPlaces; p++) failed |= two.at[p] != one.at[p] + first.bytes(one, p);
      std::vector<const uint8_t*> where(first.blocks());
      for (const kog::Place& place : first.piece(one, stream).places)
        for (uint32_t b = 0; b < place.blocks; b++) where[place.block + b] = place.w + b * first.unit(KOG_F32);
      for (uint32_t from = 0; from < first.units(one); from++) {
        std::vector<uint32_t> seen(first.blocks(), 0);
        for (uint32_t to = from + 1; to <= first.units(one); to++) {
          const kog::Piece piece = first.piece(one, stream, to - 1, to), all = first.piece(one, stream, from, to);
          for (const kog::Place& place : piece.places)
            for (uint32_t b = 0; b < place.blocks; b++) seen[place.block + b]++;
          std::vector<uint32_t> together(first.blocks(), 0);
          uint32_t before = 0xffffffff;
          for (const kog::Place& place : all.places) {
            failed |= place.blocks > before;
            before = place.blocks;
            for (uint32_t b = 0; b < place.blocks; b++) {
              together[place.block + b]++;
              failed |= where[place.block + b] != place.w + b * first.unit(KOG_F32);
            }
          }
          failed |= together != seen || all.whole != (from == 0 && to == first.units(one));
        }
        for (uint32_t count : seen) failed |= count > 1 || (from == 0 && count != 1);
      }
    }
  if (failed) puts("a run's pieces are not its blocks");
  return failed;
}

// `ab`, then one to three of `x` and `y` and a quote, then the end: walked along seven tokens in vectors of just the
// size they need.
int walk_grammar() {
  const std::vector<uint16_t> lone_code{0xffff, 0xffff, 0xffff, 'a', 'b', 256}, lone_move{0, 0, 0, 4, 0x8001, 1};
  const std::vector<uint16_t> moves{0, 0x4006, 2, 0}, need(7), entry{0, 6}, follow{0, 5};
  const std::vector<uint32_t> least{0, 1}, most{0xffffffff, 3};
  std::vector<uint8_t> classes(256), finals(7), bodies(7);
  classes['x'] = classes['y'] = 1;
  classes['"'] = 2;
  bodies[6] = 1;
  kog_tables tables{lone_code.data(), lone_move.data(), moves.data(), classes.data(), finals.data(), need.data(),
                    entry.data(), follow.data(), least.data(), most.data(), nullptr, nullptr, nullptr,
                    6, 7, 4, 3, 2, 0, 2, 2, 2};
  // The tokens: 0 a, 1 b, 2 x, 3 a quote, 4 xx, 5 x and a quote; 6 ends. And from their last byte to their first.
  const std::vector<uint8_t> byte{0, '"', 'a', 'b', 'x', '"', 'x'}, last_byte{0, '"', 'a', 'b', 'x', 'x', 'x'};
  const std::vector<kog_node> nodes{{1, 4, -1}, {0, 0, 3}, {0, 0, 0}, {0, 0, 1}, {5, 2, 2}, {0, 0, 5}, {0, 0, 4}};
  const std::vector<kog_node> last_nodes{{1, 4, -1}, {5, 1, 3}, {0, 0, 0}, {0, 0, 1}, {6, 1, 2}, {0, 0, 5}, {0, 0, 4}};
  const std::vector<kog_node> only_root{{0, 0, -1}};
  const std::vector<int32_t> group_first{0, 2}, ids{3, 5}, counts{0, 1}, ends{6};
  const kog_tree tree{byte.data(), nodes.data(), nullptr, nullptr, nullptr, 7, 0};
  const kog_tree backwards{last_byte.data(), last_nodes.data(), nullptr, nullptr, nullptr, 7, 0};
  const kog_tree body{byte.data(), only_root.data(), group_first.data(), ids.data(), counts.data(), 1, 1};
  const kog_vocabulary vocabulary{tree, nullptr, ends.data(), nullptr, 0, 1, 0, 1};
  const std::vector<uint32_t> start{1, 0, 0}, inside{2, 1, 0, 0, 0}, base{0x14};
  kog_walker* walker = kog_open_walker(&tables, &vocabulary);
  kog_forced forced{};
  kog_place place{};
  int failed = kog_find_forced(walker, 3, start.data(), &forced) != 1 || forced.length != 2 || forced.n_borders != 1;
  failed |= kog_go_along(walker, 3, start.data(), 2, &place) != 0 || place.state != 6 || place.length != 5;
  std::vector<uint32_t> all(1), left(1), none(1);
  failed |= kog_find_mask(walker, 6, inside.data(), nullptr, nullptr, 100, all.data()) != 0 || all[0] != 0x34;
  failed |= kog_find_mask(walker, 6, inside.data(), &body, base.data(), 100, left.data()) != 0 || left[0] != 0x34;
  failed |= kog_find_mask(walker, 6, inside.data(), nullptr, nullptr, 1, none.data()) != 1;
  kog_ahead* ahead = kog_open_ahead(walker, bodies.data(), &backwards);
  failed |= kog_turn_to(ahead, 3, start.data());
  int said, looks = 0;
  while ((said = kog_look_ahead(ahead, &place)) != 0 && ++looks < 100) {
    if (said != 2) continue;
    const uint32_t state = place.state;
    const std::vector<uint32_t> frames(place.frames, place.frames + place.length);
    if (kog_find_forced(walker, state, frames.data(), &forced) == 0 || forced.symbol != KOG_NO_SYMBOL) {
      failed |= kog_met(ahead, 0, nullptr);
      continue;
    }
    failed |= kog_go_along(walker, state, frames.data(), forced.length, &place);
    const std::vector<uint32_t> behind(place.frames, place.frames + place.length);
    failed |= kog_met(ahead, place.state, behind.data());
  }
  kog_close_ahead(ahead);
  kog_close_walker(walker);
  failed |= looks < 4 || looks == 100;
  printf("a grammar%s\n", failed ? ": FAILED" : "");
  return failed;
}

}  // namespace

int main() {
  int failed = held_up() | dealt_out() | in_pieces();
  for (uint32_t type = KOG_F32; type <= KOG_I4; type++)
    for (uint32_t threads = 1; threads <= 3; threads++)
      for (uint32_t lanes = 1; lanes <= 2; lanes++) failed |= run(type, threads == 2 ? KOG_F16 : KOG_F32, threads, lanes);
  const std::vector<uint32_t> files[] = {
      {12, 12, 14, 12, 12, 12, 14, 14}, {13, 14, 13, 6, 7, 7, 12, 8}, {2, 8, 12, 3, 14, 14, 13, 7}};
  for (const std::vector<uint32_t>& kinds : files)
    for (uint32_t threads = 1; threads <= 3; threads++)
      for (uint32_t lanes = 1; lanes <= 2; lanes++) failed |= run(KOG_F16, KOG_F32, threads, lanes, kinds);
  failed |= walk_grammar();
  failed |= kog_read_bandwidth(2, 1 << 20, 1) <= 0.0;
  puts(failed ? "failed" : "ran clean");
  return failed;
}
