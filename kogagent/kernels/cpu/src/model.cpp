// Phases of a module, a barrier after each:
//   attention   norm and q, k, v; bias, norm, RoPE of k, append | the same for q, attention | out and landings
//   MLP         norm, gate, up and SiLU | down and landings
// A thread has the same columns of the stream everywhere, so that whatever lands there needs no exchange. Where
// the lanes can be dealt out evenly a thread owns whole lanes instead and there are no barriers: it waits only
// for the outputs of other lanes that land, which with a delay were made some modules ago.
// Each sum is made by one thread in one order: the same bits on every run.

#include "model.h"

#include <cmath>
#include <string.h>

#include <algorithm>

#include "halves.h"

namespace kog {
namespace {

constexpr uint32_t kChunk = 256;        // rows of one pass of a long pre-fill: bounds the activations' memory
constexpr uint32_t kNormedRows = 4;     // up to here each thread norms for itself what it reads
constexpr uint32_t kPairsAtOnce = 8;    // pairs of gate and up blocks of many rows
constexpr uint32_t kLinesAhead = 64;    // of the next phase's weights, asked for while a thread waits

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

void grow(Floats& v, size_t n) {
  if (v.size() < n) v.resize(n);
}

}  // namespace

Model::Model(const kog_shape& shape)
    : s(shape),
      group(s.heads / s.kv_heads),
      lane_heads(s.heads / s.lanes),
      lane_kv(s.kv_heads / s.lanes),
      q_width(lane_heads * s.head_dim),
      qkv_width((lane_heads + 2 * lane_kv) * s.head_dim),
      ffn(s.ffn / s.lanes),
      value_width(round_up(s.head_dim, kBlock)),
      cache_size(s.cache == KOG_F32 ? 4 : 2),
      k(best_kernels()),
      layers(s.layers),
      by_lane(s.lanes > 1 && s.lanes % s.threads == 0),
      frequencies(s.frequencies, s.frequencies + s.head_dim / 2),
      steps(2 * s.layers),
      scratch(s.threads),
      team(s.threads) {
  std::vector<size_t> ends(s.threads, 0);
  const auto matrix = [&](Packed& m, uint32_t lanes, uint32_t out, uint32_t in, bool pair, bool same_rows) {
    m.lanes = lanes;
    m.out = out;
    m.in = in;
    m.type = s.weights;
    m.pair = pair;
    m.cut(s.threads, same_rows, ends);
  };
  for (uint32_t n = 0; n < s.layers; n++) {
    Layer& layer = layers[n];
    layer.window = s.windows[n];
    matrix(layer.matrices[KOG_QKV], s.lanes, qkv_width, s.dim, false, false);
    matrix(layer.matrices[KOG_OUT], s.lanes, s.dim, q_width, false, !by_lane);
    matrix(layer.matrices[KOG_GATE_UP], s.lanes, ffn, s.dim, true, false);
    matrix(layer.matrices[KOG_DOWN], s.lanes, s.dim, ffn, false, !by_lane);
  }
  const uint32_t parts = s.head == KOG_HEAD_SPLIT ? s.lanes : 1;
  matrix(head, parts, s.vocab / parts, s.dim, false, false);
  for (uint32_t t = 0; t < s.threads; t++) arenas.push_back(std::make_unique<Arena>(ends[t]));
  head_blocks.resize(size_t(parts) * head.blocks());
  for (uint32_t t = 0; t < s.threads; t++)
    for (const Run& run : head.runs[t])
      for (uint32_t b = 0; b < run.blocks; b++)
        head_blocks[size_t(run.lane) * head.blocks() + run.block + b] = arenas[t]->data() + run.at + b * head.unit();
  for (uint32_t i = 0; i < 2 * s.layers; i++) {
    steps[i].slot = s.step_slot[i];
    steps[i].free_from = s.step_free[i];
    for (uint32_t j = s.step_first[i]; j < s.step_first[i + 1]; j++)
      steps[i].landings.push_back({s.land_source[j], s.step_slot[s.land_source[j]], s.land_own[j], s.land_others[j]});
  }
  owns_heads = true;
  const Packed& qkv_matrix = layers[0].matrices[KOG_QKV];
  for (uint32_t t = 0; t < s.threads; t++)
    for (const Run& run : qkv_matrix.runs[t])
      for (const uint32_t edge : {run.block * kBlock, (run.block + run.blocks) * kBlock})
        if (edge > q_width && edge < qkv_width && edge % s.head_dim != 0) owns_heads = false;
  s.frequencies = nullptr;  // the caller's memory: copied above
  s.windows = s.step_slot = s.step_free = s.step_first = s.land_source = nullptr;
  s.land_own = s.land_others = nullptr;
}

float Model::pack(const Packed& m, uint32_t type, const void* first, const void* second) {
  std::vector<float> worst(s.threads, 0.0f);
  const size_t size = bytes_of(type);
  const auto part = [&](uint32_t t) {
    for (const Run& run : m.runs[t]) {
      const size_t lane = size_t(run.lane) * m.out * m.in * size;
      const uint8_t* one = static_cast<const uint8_t*>(first) + lane;
      const uint8_t* two = static_cast<const uint8_t*>(second) + (m.pair ? lane : 0);
      uint8_t* to = arenas[t]->data() + run.at;
      for (uint32_t b = 0; b < run.blocks; b++) {
        const uint32_t row = (run.block + b) * kBlock;
        worst[t] = std::max(worst[t], pack_block(m, *k, type, one, row, to));
        to += block_bytes(m.type, m.in);
        if (!m.pair) continue;
        worst[t] = std::max(worst[t], pack_block(m, *k, type, two, row, to));
        to += block_bytes(m.type, m.in);
      }
    }
  };
  team.run([&](uint32_t w) { team.each(w, part); });
  return *std::max_element(worst.begin(), worst.end());
}

void Model::fill(const void* const* packed) {
  team.run([&](uint32_t w) {
    team.each(w, [&](uint32_t t) { memcpy(arenas[t]->data(), packed[t], arenas[t]->used()); });
  });
}

void Model::run(const Job& whole) {
  make_room(std::min(whole.rows, kChunk), whole);
  for (uint32_t at = 0; at < whole.rows; at += kChunk) {
    Job job = whole;
    job.rows = std::min(kChunk, whole.rows - at);
    job.position += at;
    job.ids += at;
    if (whole.want == KOG_ALL) job.logits += size_t(at) * s.vocab;
    if (whole.want == KOG_LAST && at + kChunk < whole.rows) job.want = KOG_NONE;
    team.run([&](uint32_t w) { pass(job, w); });
  }
}

Summary Model::summary() const {
  Summary all = scratch[0].summary;
  for (uint32_t t = 1; t < s.threads; t++) {  // in this order: the same bits on every run
    const Summary& one = scratch[t].summary;
    const float top = std::max(all.top, one.top);
    all.total = (all.total > 0 ? all.total * exp(double(all.top - top)) : all.total) +
                (one.total > 0 ? one.total * exp(double(one.top - top)) : one.total);
    all.top = top;
    if (one.best_value > all.best_value || (one.best_value == all.best_value && one.best < all.best)) {
      all.best_value = one.best_value;
      all.best = one.best;
    }
  }
  return all;
}

void Model::make_room(uint32_t rows, const Job& job) {
  const size_t all = size_t(s.lanes) * rows;
  grow(streams, all * s.dim);
  grow(outputs, all * s.dim * s.slots);
  grow(normed, all * s.dim);
  grow(qkv, all * qkv_width);
  grow(mixed, all * q_width);
  grow(hidden, all * ffn);
  stride = round_up(job.position + job.rows, kBlock);
  const size_t ends = job.want == KOG_ALL ? rows : 1;
  const size_t room = product_room(s.weights, std::max({s.dim, q_width, ffn}), rows) + 64;
  for (Scratch& own : scratch) {
    grow(own.normed, size_t(kNormedRows) * s.dim);
    grow(own.gates, rows > kFewRows ? size_t(rows) * kPairsAtOnce * 2 * kBlock : size_t(rows) * 2 * round_up(ffn, kBlock));
    grow(own.scores, size_t(kQueries) * stride);
    grow(own.head, size_t(head.lanes) * ends * s.dim + 2 * s.dim);
    grow(own.turns, size_t(rows) * s.head_dim);
    if (own.room.size() < room) own.room.resize(room);
  }
}

void Model::barrier(uint32_t w) {
  const uint8_t* next = scratch[team.first(w)].next;
  team.barrier(w, [next] {
    if (next == nullptr) return;
    for (uint32_t i = 0; i < kLinesAhead; i++) __builtin_prefetch(next + 64 * i);
  });
}

// What thread w does of a pass: each phase for each part that is its own; t below is a part.
void Model::pass(const Job& job, uint32_t w) {
  const uint32_t base = team.progress(team.first(w));
  const auto each = [&](const auto& part) { team.each(w, part); };
  each([&](uint32_t t) {
    scratch[t].next = arenas[t]->data();
    embed(job, t);
  });
  meet(w);
  for (uint32_t i = 0; i < steps.size(); i++) {
    const Layer& layer = layers[i / 2];
    const bool attends = i % 2 == 0;
    const Floats& weight = attends ? layer.attn_norm : layer.ffn_norm;
    if (job.rows > kNormedRows) {
      each([&](uint32_t t) { norm_rows(job, t, weight); });
      meet(w);
    }
    each([&](uint32_t t) { project(job, t, weight, layer.matrices[attends ? KOG_QKV : KOG_GATE_UP]); });
    if (attends) {
      if (!owns_heads) meet(w);
      each([&](uint32_t t) { append(job, t, layer, i / 2); });
      if (job.want == KOG_NONE && i + 2 == steps.size()) return;  // the last keys and values: nothing else is wanted
      meet(w);
      each([&](uint32_t t) { attend(job, t, layer, i / 2); });
    }
    meet(w);
    const Step& step = steps[i];
    const Packed& last = layer.matrices[attends ? KOG_OUT : KOG_DOWN];
    wait(w, base, 2 * step.free_from);
    each([&](uint32_t t) { give(job, t, last, attends ? mixed : hidden, step); });
    advance(w);  // given: two advances a module
    for (const Landed& landing : step.landings)
      if (landing.others != 0.0f) wait(w, base, 2 * landing.source + 1);
    each([&](uint32_t t) { land(job, t, last, step); });
    advance(w);  // landed
    meet(w);
  }
  if (by_lane) barrier(w);
  each([&](uint32_t t) {
    logits(job, t);
    if (job.want == KOG_LAST) summarise(job, t);
  });
}

void Model::embed(const Job& job, uint32_t t) {
  for (uint32_t m = 0; m < job.rows; m++) {  // each thread its own: cheaper than to share them
    float* turn = &scratch[t].turns[size_t(m) * s.head_dim];
    for (uint32_t i = 0; i < s.head_dim / 2; i++) {
      const double angle = double(job.position + m) * frequencies[i];
      turn[2 * i] = float(cos(angle));
      turn[2 * i + 1] = float(sin(angle));
    }
  }
  const uint32_t first = by_lane ? share(s.lanes, t) : 0, last = by_lane ? share(s.lanes, t + 1) : s.lanes;
  for (uint32_t m = by_lane ? 0 : t; m < job.rows; m += by_lane ? 1 : s.threads) {
    float* x = &streams[row(first, m, job, s.dim)];
    const uint32_t id = job.ids[m];
    if (table == nullptr) {
      const uint32_t lane = id / head.out, in_lane = id % head.out;
      unpack_row(head, head_blocks[size_t(lane) * head.blocks() + in_lane / kBlock], in_lane % kBlock, x);
    } else {
      const uint16_t* half = static_cast<const uint16_t*>(table) + size_t(id) * s.dim;
      const float* full = static_cast<const float*>(table) + size_t(id) * s.dim;
      for (uint32_t d = 0; d < s.dim; d++)
        x[d] = s.weights == KOG_F16 ? from_f16(half[d]) : s.weights == KOG_BF16 ? from_bf16(half[d]) : full[d];
    }
    for (uint32_t lane = first + 1; lane < last; lane++)
      memcpy(&streams[row(lane, m, job, s.dim)], x, s.dim * sizeof(float));
  }
}

void Model::multiply(Product p, uint32_t t) {
  void* room = scratch[t].room.data();
  size_t space = scratch[t].room.size();
  p.room = std::align(64, space - 64, room, space);
  k->product(p);
  scratch[t].next = p.w + p.blocks * block_bytes(p.type, p.in);
}

// The norms of many rows, dealt out evenly.
void Model::norm_rows(const Job& job, uint32_t t, const Floats& weight) {
  for (uint32_t u = share(s.lanes * job.rows, t); u < share(s.lanes * job.rows, t + 1); u++)
    k->norm(&streams[size_t(u) * s.dim], weight.data(), s.norm_eps, s.dim, &normed[size_t(u) * s.dim]);
}

// The rows of q, k, v or of gate, up and their product that are t's; before that the norms of a few rows.
void Model::project(const Job& job, uint32_t t, const Floats& weight, const Packed& m) {
  for (const Run& run : m.runs[t]) {
    const float* x = &normed[row(run.lane, 0, job, s.dim)];
    if (job.rows <= kNormedRows) {
      float* own = scratch[t].normed.data();
      for (uint32_t r = 0; r < job.rows; r++)
        k->norm(&streams[row(run.lane, r, job, s.dim)], weight.data(), s.norm_eps, s.dim, own + r * s.dim);
      x = own;
    }
    if (m.pair) {
      gate_up(job, t, m, run, x);
      continue;
    }
    const uint32_t first = run.block * kBlock;
    multiply({arenas[t]->data() + run.at, m.type, s.dim, run.blocks, x, s.dim, job.rows,
              &qkv[row(run.lane, 0, job, qkv_width) + first], qkv_width, qkv_width - first, nullptr},
             t);
  }
}

void Model::gate_up(const Job& job, uint32_t t, const Packed& m, const Run& run, const float* x) {
  float* gates = scratch[t].gates.data();
  const uint32_t step = job.rows > kFewRows ? kPairsAtOnce : run.blocks;
  for (uint32_t from = 0; from < run.blocks; from += step) {
    const uint32_t pairs = std::min(step, run.blocks - from), width = pairs * 2 * kBlock;
    multiply({arenas[t]->data() + run.at + from * m.unit(), m.type, s.dim, 2 * pairs, x, s.dim, job.rows, gates, width,
              width, nullptr},
             t);
    for (uint32_t r = 0; r < job.rows; r++)
      for (uint32_t b = 0; b < pairs; b++) {
        const uint32_t at = (run.block + from + b) * kBlock;
        k->gate(gates + size_t(r) * width + b * 2 * kBlock, std::min(kBlock, ffn - at),
                &hidden[row(run.lane, r, job, ffn) + at]);
      }
  }
}

// Bias, head norm and RoPE of one head's row, in place.
void Model::turn(uint32_t t, const Layer& layer, float* x, uint32_t lane, uint32_t head, uint32_t m) {
  const uint32_t h = s.head_dim;
  if (!layer.bias.empty()) {
    const float* bias = &layer.bias[lane * qkv_width + head * h];
    for (uint32_t d = 0; d < h; d++) x[d] += bias[d];
  }
  if (head >= lane_heads + lane_kv) return;
  const Floats& scale = head < lane_heads ? layer.q_norm : layer.k_norm;
  if (!scale.empty()) k->norm(x, scale.data(), s.norm_eps, h, x);
  const float* turn = &scratch[t].turns[size_t(m) * h];
  for (uint32_t d = 0; d < h; d += 2) {
    const float a = x[d], b = x[d + 1];
    x[d] = a * turn[d] - b * turn[d + 1];
    x[d + 1] = a * turn[d + 1] + b * turn[d];
  }
}

// k and v into the cache: by whoever multiplied a head's rows, or dealt out evenly.
void Model::append(const Job& job, uint32_t t, const Layer& layer, uint32_t n) {
  const uint32_t h = s.head_dim, heads = 2 * lane_kv;
  const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
  const auto one = [&](uint32_t lane, uint32_t which, uint32_t m) {  // of the lane's k heads, then its v heads
    const uint32_t head = lane_heads + which, at = job.position + m;
    float* x = &qkv[row(lane, m, job, qkv_width) + head * h];
    turn(t, layer, x, lane, head, m);
    const size_t store = size_t(n) * s.kv_heads + lane * lane_kv + which % lane_kv;
    if (which < lane_kv)
      write(job.keys, (store * tiles + at / kBlock) * h * kBlock + at % kBlock, kBlock, x);
    else
      write(job.values, (store * job.capacity + at) * value_width, 1, x);
  };
  if (owns_heads) {
    for (const Run& run : layer.matrices[KOG_QKV].runs[t])
      for (uint32_t which = 0; which < heads; which++) {
        const uint32_t from = (lane_heads + which) * h;
        if (from < run.block * kBlock || from >= (run.block + run.blocks) * kBlock) continue;
        for (uint32_t m = 0; m < job.rows; m++) one(run.lane, which, m);
      }
    return;
  }
  const uint32_t units = s.lanes * heads * job.rows;
  for (uint32_t u = share(units, t); u < share(units, t + 1); u++)
    one(u / job.rows / heads, u / job.rows % heads, u % job.rows);
}

void Model::write(uint8_t* cache, size_t at, size_t stride, const float* x) const {
  if (s.cache == KOG_F32) {
    float* to = reinterpret_cast<float*>(cache) + at;
    for (uint32_t d = 0; d < s.head_dim; d++) to[d * stride] = x[d];
  } else {
    uint16_t* to = reinterpret_cast<uint16_t*>(cache) + at;
    for (uint32_t d = 0; d < s.head_dim; d++) to[d * stride] = to_f16(x[d]);
  }
}

// Queries in the order of the keys they share: key-value head, head of its group, row.
void Model::attend(const Job& job, uint32_t t, const Layer& layer, uint32_t n) {
  const uint32_t h = s.head_dim, each = group * job.rows, end = share(s.kv_heads * each, t + 1);
  const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
  const float query_scale = 1.0f / sqrtf(float(h));
  Attend a{};
  a.type = s.cache;
  a.h = h;
  a.width = value_width;
  a.scores = scratch[t].scores.data();
  a.stride = stride;
  for (uint32_t at = share(s.kv_heads * each, t); at < end; at += a.count) {
    const uint32_t which = at / each, lane = which / lane_kv;
    const size_t store = size_t(n) * s.kv_heads + which;
    a.keys = job.keys + store * tiles * h * kBlock * cache_size;
    a.values = job.values + store * job.capacity * value_width * cache_size;
    a.count = std::min(std::min(k->queries, end - at), (which + 1) * each - at);
    for (uint32_t i = 0; i < a.count; i++) {
      const uint32_t in_head = at + i - which * each, m = in_head % job.rows;
      const uint32_t head = (which - lane * lane_kv) * group + in_head / job.rows;
      float* q = &qkv[row(lane, m, job, qkv_width) + head * h];
      turn(t, layer, q, lane, head, m);
      for (uint32_t d = 0; d < h; d++) q[d] *= query_scale;
      a.q[i] = q;
      a.out[i] = &mixed[row(lane, m, job, q_width) + head * h];
      a.last[i] = job.position + m + 1;
      a.first[i] = layer.window && a.last[i] > layer.window ? a.last[i] - layer.window : 0;
    }
    k->attend(a);
  }
}

// A module's last product, in t's columns or lanes.
void Model::give(const Job& job, uint32_t t, const Packed& m, const Floats& input, const Step& step) {
  float* out = &outputs[step.slot * size_t(s.lanes) * job.rows * s.dim];
  for (const Run& run : m.runs[t]) {
    const uint32_t first = run.block * kBlock;
    multiply({arenas[t]->data() + run.at, m.type, m.in, run.blocks, &input[row(run.lane, 0, job, m.in)], m.in, job.rows,
              out + row(run.lane, 0, job, s.dim) + first, s.dim, s.dim - first, nullptr},
             t);
  }
}

// What lands after it, there.
void Model::land(const Job& job, uint32_t t, const Packed& m, const Step& step) {
  if (!by_lane && m.runs[t].empty()) return;
  const size_t size = size_t(s.lanes) * job.rows * s.dim;
  const uint32_t from = by_lane ? 0 : m.runs[t][0].block * kBlock;
  const uint32_t to = by_lane ? s.dim : std::min(s.dim, from + m.runs[t][0].blocks * kBlock);
  Landing l{};
  l.lanes = s.lanes;
  l.first = by_lane ? share(s.lanes, t) : 0;
  l.last = by_lane ? share(s.lanes, t + 1) : s.lanes;
  l.lane_step = size_t(job.rows) * s.dim;
  l.n = to - from;
  for (const Landed& landing : step.landings) {
    l.own = landing.own;
    l.others = landing.others;
    for (uint32_t r = 0; r < job.rows; r++) {
      const size_t at = size_t(r) * s.dim + from;
      l.streams = &streams[at];
      l.source = &outputs[landing.slot * size + at];
      k->land(l);
    }
  }
}

void Model::logits(const Job& job, uint32_t t) {
  const uint32_t first = job.want == KOG_ALL ? 0 : job.rows - 1, rows = job.rows - first;
  float* x = scratch[t].head.data();
  float* spare = x + size_t(head.lanes) * rows * s.dim;
  for (uint32_t r = 0; r < rows; r++) {
    float* to = x + size_t(r) * s.dim;
    if (s.head == KOG_HEAD_SPLIT) {
      for (uint32_t lane = 0; lane < s.lanes; lane++)
        k->norm(&streams[row(lane, first + r, job, s.dim)], norm.data(), s.norm_eps, s.dim,
                to + size_t(lane) * rows * s.dim);
      continue;
    }
    memset(spare, 0, s.dim * sizeof(float));
    for (uint32_t lane = 0; lane < s.lanes; lane++) {
      const float* stream = &streams[row(lane, first + r, job, s.dim)];
      if (s.head == KOG_HEAD_REPLICATE) {
        k->norm(stream, norm.data(), s.norm_eps, s.dim, spare + s.dim);
        stream = spare + s.dim;
      }
      for (uint32_t d = 0; d < s.dim; d++) spare[d] += stream[d];
    }
    if (s.head == KOG_HEAD_SUM)
      k->norm(spare, norm.data(), s.norm_eps, s.dim, to);
    else
      for (uint32_t d = 0; d < s.dim; d++) to[d] = spare[d] / float(s.lanes);
  }
  for (const Run& run : head.runs[t]) {
    const uint32_t at = run.block * kBlock;
    multiply({arenas[t]->data() + run.at, head.type, s.dim, run.blocks, x + size_t(run.lane) * rows * s.dim, s.dim,
              rows, job.logits + size_t(run.lane) * head.out + at, s.vocab, head.out - at, nullptr},
             t);
  }
}

void Model::summarise(const Job& job, uint32_t t) {
  Summary& own = scratch[t].summary;
  own = {-INFINITY, 0.0, -INFINITY, job.legal};
  for (const Run& run : head.runs[t]) {
    const uint32_t at = run.lane * head.out + run.block * kBlock;
    const uint32_t n = std::min(run.blocks * kBlock, head.out - run.block * kBlock);
    const float* x = job.logits + at;
    const float top = k->largest(x, n), whole = std::max(own.top, top);
    const double part = k->exp_sum(x, n, top > -INFINITY ? top : 0.0f);
    own.total = (own.total > 0 ? own.total * exp(double(own.top - whole)) : own.total) +
                (part > 0 ? part * exp(double(top - whole)) : part);
    own.top = whole;
    if (at >= job.legal) continue;
    const uint32_t legal = std::min(n, job.legal - at);
    const float best = legal == n ? top : k->largest(x, legal);
    if (!(best > own.best_value)) continue;
    uint32_t i = 0;
    while (i < legal && x[i] != best) i++;
    if (i == legal) continue;
    own.best_value = best;
    own.best = at + i;
  }
}

}  // namespace kog
