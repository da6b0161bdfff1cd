// One pass of a model over some rows, by a team of threads. Knows shapes, weights and the landings' table.
//
// Phases of a module, a barrier after each:
//   attention   norm and q, k, v | bias, norm, RoPE, append | attention | out and landings
//   MLP         norm, gate, up and SiLU | down and landings
// A thread has the same columns of every lane's stream, so that whatever lands there needs no exchange.
// Each sum is made by one thread in one order: the same bits on every run.

#include <cmath>
#include <string.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "halves.h"
#include "kernels.h"
#include "native.h"
#include "packed.h"
#include "team.h"

namespace kog {
namespace {

constexpr uint32_t kChunk = 256;  // rows of one pass of a long pre-fill: bounds the activations' memory
constexpr uint32_t kFewRows = 4;  // up to here each thread norms for itself what it reads, without a barrier

using Floats = std::vector<float>;

struct Landing {
  uint32_t slot;
  float own, others;
};

struct Step {
  uint32_t slot;
  std::vector<Landing> landings;
};

struct Layer {
  Packed matrices[4];
  Floats attn_norm, ffn_norm, bias, q_norm, k_norm;
  uint32_t window = 0;
};

struct Job {  // one pass
  uint8_t* keys;
  uint8_t* values;
  uint32_t capacity, position, rows, want;
  const uint32_t* ids;
  float* logits;
};

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

struct Scratch {  // of one thread
  Floats normed, gates, scores, head;
};

const Kernels* best() {
  if (const Kernels* k = kernels_avx512()) return k;
  if (const Kernels* k = kernels_avx2()) return k;
  return kernels_portable();
}

}  // namespace
}  // namespace kog

using namespace kog;

struct kog_model {
  explicit kog_model(const kog_shape& shape)
      : s(shape),
        group(s.heads / s.kv_heads),
        lane_heads(s.heads / s.lanes),
        lane_kv(s.kv_heads / s.lanes),
        q_width(lane_heads * s.head_dim),
        qkv_width((lane_heads + 2 * lane_kv) * s.head_dim),
        ffn(s.ffn / s.lanes),
        value_width(round_up(s.head_dim, kBlock)),
        cache_size(s.cache == KOG_F32 ? 4 : 2),
        k(best()),
        frequencies(s.frequencies, s.frequencies + s.head_dim / 2),
        layers(s.layers),
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
      matrix(layer.matrices[KOG_OUT], s.lanes, s.dim, q_width, false, true);
      matrix(layer.matrices[KOG_GATE_UP], s.lanes, ffn, s.dim, true, false);
      matrix(layer.matrices[KOG_DOWN], s.lanes, s.dim, ffn, false, true);
    }
    const uint32_t parts = s.head == KOG_HEAD_SPLIT ? s.lanes : 1;
    matrix(head, parts, s.vocab / parts, s.dim, false, false);
    for (uint32_t t = 0; t < s.threads; t++) arenas.push_back(std::make_unique<Arena>(ends[t]));
    head_blocks.resize(size_t(parts) * head.blocks());
    for (uint32_t t = 0; t < s.threads; t++)
      for (const Run& run : head.runs[t])
        for (uint32_t b = 0; b < run.blocks; b++)
          head_blocks[size_t(run.lane) * head.blocks() + run.block + b] =
              arenas[t]->data() + run.at + b * head.unit();
    for (uint32_t i = 0; i < 2 * s.layers; i++) {
      steps[i].slot = s.step_slot[i];
      for (uint32_t j = s.step_first[i]; j < s.step_first[i + 1]; j++)
        steps[i].landings.push_back({s.land_slot[j], s.land_own[j], s.land_others[j]});
    }
    s.frequencies = nullptr;  // the caller's memory: copied above
    s.windows = s.step_slot = s.step_first = s.land_slot = nullptr;
    s.land_own = s.land_others = nullptr;
  }

  // ── loading ──

  float pack(const Packed& m, const void* first, const void* second) {
    std::vector<float> worst(s.threads, 0.0f);
    const size_t size = m.type == KOG_F16 || m.type == KOG_BF16 ? 2 : 4;
    team.run([&](uint32_t t) {
      for (const Run& run : m.runs[t]) {
        const size_t lane = size_t(run.lane) * m.out * m.in * size;
        const uint8_t* one = static_cast<const uint8_t*>(first) + lane;
        const uint8_t* two = static_cast<const uint8_t*>(second) + (m.pair ? lane : 0);
        uint8_t* to = arenas[t]->data() + run.at;
        for (uint32_t b = 0; b < run.blocks; b++) {
          const uint32_t row = (run.block + b) * kBlock;
          worst[t] = std::max(worst[t], pack_block(m, one, row, to));
          to += block_bytes(m.type, m.in);
          if (!m.pair) continue;
          worst[t] = std::max(worst[t], pack_block(m, two, row, to));
          to += block_bytes(m.type, m.in);
        }
      }
    });
    return *std::max_element(worst.begin(), worst.end());
  }

  // ── running ──

  void run(const Job& whole) {
    const uint32_t most = std::min(whole.rows, kChunk);
    make_room(most, whole);
    for (uint32_t at = 0; at < whole.rows; at += kChunk) {
      Job job = whole;
      job.rows = std::min(kChunk, whole.rows - at);
      job.position += at;
      job.ids += at;
      if (whole.want == KOG_ALL) job.logits += size_t(at) * s.vocab;
      if (whole.want == KOG_LAST && at + kChunk < whole.rows) job.want = KOG_NONE;
      team.run([&](uint32_t t) { pass(job, t); });
    }
  }

  void make_room(uint32_t rows, const Job& job) {
    const size_t all = size_t(s.lanes) * rows;
    const auto grow = [](Floats& v, size_t n) {
      if (v.size() < n) v.resize(n);
    };
    grow(streams, all * s.dim);
    grow(outputs, all * s.dim * s.slots);
    grow(normed, all * s.dim);
    grow(qkv, all * qkv_width);
    grow(mixed, all * q_width);
    grow(hidden, all * ffn);
    grow(turns, size_t(rows) * s.head_dim);
    stride = round_up(job.position + job.rows, kBlock);
    const size_t ends = job.want == KOG_ALL ? rows : 1;
    for (Scratch& own : scratch) {
      grow(own.normed, size_t(s.lanes) * kFewRows * s.dim);
      grow(own.gates, size_t(rows) * 2 * kBlock);
      grow(own.scores, size_t(kQueries) * stride);
      grow(own.head, size_t(head.lanes) * ends * s.dim + 2 * s.dim);
    }
  }

  void pass(const Job& job, uint32_t t) {
    embed(job, t);
    team.barrier();
    for (uint32_t i = 0; i < steps.size(); i++) {
      Layer& layer = layers[i / 2];
      if (i % 2 == 0) {
        project(job, t, layer.attn_norm, layer.matrices[KOG_QKV]);
        team.barrier();
        append(job, t, layer, i / 2);
        team.barrier();
        attend(job, t, layer, i / 2);
        team.barrier();
        land(job, t, layer.matrices[KOG_OUT], mixed, steps[i]);
      } else {
        project(job, t, layer.ffn_norm, layer.matrices[KOG_GATE_UP]);
        team.barrier();
        land(job, t, layer.matrices[KOG_DOWN], hidden, steps[i]);
      }
      team.barrier();
    }
    if (job.want != KOG_NONE) logits(job, t);
  }

  size_t row(uint32_t lane, uint32_t m, const Job& job, uint32_t width) const {
    return (size_t(lane) * job.rows + m) * width;
  }

  // t's share of n units
  uint32_t share(uint32_t n, uint32_t t) const { return uint32_t(uint64_t(n) * t / s.threads); }

  void embed(const Job& job, uint32_t t) {
    for (uint32_t m = t; m < job.rows; m += s.threads) {
      float* x = &streams[row(0, m, job, s.dim)];
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
      for (uint32_t lane = 1; lane < s.lanes; lane++)
        memcpy(&streams[row(lane, m, job, s.dim)], x, s.dim * sizeof(float));
      float* turn = &turns[size_t(m) * s.head_dim];
      for (uint32_t i = 0; i < s.head_dim / 2; i++) {
        const double angle = double(job.position + m) * frequencies[i];
        turn[2 * i] = float(cos(angle));
        turn[2 * i + 1] = float(sin(angle));
      }
    }
  }

  // Norm, then the rows of q, k, v or of gate, up and their product that are t's.
  void project(const Job& job, uint32_t t, const Floats& weight, const Packed& m) {
    const bool few = job.rows <= kFewRows;
    if (!few) {
      for (uint32_t u = share(s.lanes * job.rows, t); u < share(s.lanes * job.rows, t + 1); u++)
        k->norm(&streams[size_t(u) * s.dim], weight.data(), s.norm_eps, s.dim, &normed[size_t(u) * s.dim]);
      team.barrier();
    }
    Floats& gates = scratch[t].gates;
    for (const Run& run : m.runs[t]) {
      const float* x = &normed[row(run.lane, 0, job, s.dim)];
      if (few) {
        float* own = scratch[t].normed.data();
        for (uint32_t r = 0; r < job.rows; r++)
          k->norm(&streams[row(run.lane, r, job, s.dim)], weight.data(), s.norm_eps, s.dim, own + r * s.dim);
        x = own;
      }
      Product p{arenas[t]->data() + run.at, m.type, s.dim, run.blocks, x, s.dim, job.rows, nullptr, 0, 0};
      const uint32_t first = run.block * kBlock;
      if (!m.pair) {
        p.y = &qkv[row(run.lane, 0, job, qkv_width) + first];
        p.ldy = qkv_width;
        p.valid = qkv_width - first;
        k->product(p);
        continue;
      }
      p.blocks = 2;
      p.y = gates.data();
      p.ldy = p.valid = 2 * kBlock;
      for (uint32_t b = 0; b < run.blocks; b++, p.w += m.unit()) {
        k->product(p);
        const uint32_t at = first + b * kBlock, n = std::min(kBlock, ffn - at);
        for (uint32_t r = 0; r < job.rows; r++)
          k->gate(&gates[size_t(r) * 2 * kBlock], n, &hidden[row(run.lane, r, job, ffn) + at]);
      }
    }
  }

  // Bias, head norm and RoPE of q and k in place; k and v into the cache.
  void append(const Job& job, uint32_t t, const Layer& layer, uint32_t n) {
    const uint32_t h = s.head_dim, heads = lane_heads + 2 * lane_kv;
    const uint32_t units = s.lanes * heads * job.rows;
    const float query_scale = 1.0f / sqrtf(float(h));
    for (uint32_t u = share(units, t); u < share(units, t + 1); u++) {
      const uint32_t m = u % job.rows, head = u / job.rows % heads, lane = u / job.rows / heads;
      float* x = &qkv[row(lane, m, job, qkv_width) + head * h];
      if (!layer.bias.empty()) {
        const float* bias = &layer.bias[lane * qkv_width + head * h];
        for (uint32_t d = 0; d < h; d++) x[d] += bias[d];
      }
      const uint32_t at = job.position + m;
      if (head >= lane_heads + lane_kv) {
        const uint32_t which = lane * lane_kv + head - lane_heads - lane_kv;
        write(job.values, ((size_t(n) * s.kv_heads + which) * job.capacity + at) * value_width, 1, x);
        continue;
      }
      const bool query = head < lane_heads;
      const Floats& scale = query ? layer.q_norm : layer.k_norm;
      if (!scale.empty()) k->norm(x, scale.data(), s.norm_eps, h, x);
      const float* turn = &turns[size_t(m) * h];
      for (uint32_t d = 0; d < h; d += 2) {
        const float a = x[d], b = x[d + 1];
        x[d] = a * turn[d] - b * turn[d + 1];
        x[d + 1] = a * turn[d + 1] + b * turn[d];
      }
      if (query) {
        for (uint32_t d = 0; d < h; d++) x[d] *= query_scale;
      } else {
        const uint32_t which = lane * lane_kv + head - lane_heads;
        const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
        const size_t tile = (size_t(n) * s.kv_heads + which) * tiles + at / kBlock;
        write(job.keys, tile * h * kBlock + at % kBlock, kBlock, x);
      }
    }
  }

  void write(uint8_t* cache, size_t at, size_t stride, const float* x) const {
    if (s.cache == KOG_F32) {
      float* to = reinterpret_cast<float*>(cache) + at;
      for (uint32_t d = 0; d < s.head_dim; d++) to[d * stride] = x[d];
    } else {
      uint16_t* to = reinterpret_cast<uint16_t*>(cache) + at;
      for (uint32_t d = 0; d < s.head_dim; d++) to[d * stride] = to_f16(x[d]);
    }
  }

  // Queries in the order of the keys they share: key-value head, head of its group, row.
  void attend(const Job& job, uint32_t t, const Layer& layer, uint32_t n) {
    const uint32_t h = s.head_dim, each = group * job.rows, end = share(s.kv_heads * each, t + 1);
    const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
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
      a.count = std::min(std::min(kQueries, end - at), (which + 1) * each - at);
      for (uint32_t i = 0; i < a.count; i++) {
        const uint32_t in_head = at + i - which * each, m = in_head % job.rows;
        const uint32_t head = (which - lane * lane_kv) * group + in_head / job.rows;
        a.q[i] = &qkv[row(lane, m, job, qkv_width) + head * h];
        a.out[i] = &mixed[row(lane, m, job, q_width) + head * h];
        a.last[i] = job.position + m + 1;
        a.first[i] = layer.window && a.last[i] > layer.window ? a.last[i] - layer.window : 0;
      }
      k->attend(a);
    }
  }

  // A module's last product and what lands after it, in the columns that are t's.
  void land(const Job& job, uint32_t t, const Packed& m, const Floats& input, const Step& step) {
    const size_t size = size_t(s.lanes) * job.rows * s.dim;
    float* out = &outputs[step.slot * size];
    for (const Run& run : m.runs[t]) {
      const uint32_t first = run.block * kBlock;
      k->product({arenas[t]->data() + run.at, m.type, m.in, run.blocks, &input[row(run.lane, 0, job, m.in)],
                  m.in, job.rows, out + row(run.lane, 0, job, s.dim) + first, s.dim, s.dim - first});
    }
    if (m.runs[t].empty()) return;
    const uint32_t from = m.runs[t][0].block * kBlock;
    const uint32_t to = std::min(s.dim, from + m.runs[t][0].blocks * kBlock);
    for (const Landing& landing : step.landings) {
      const float* source = &outputs[landing.slot * size];
      for (uint32_t r = 0; r < job.rows; r++) {
        if (landing.others == 0.0f || s.lanes == 1) {
          for (uint32_t lane = 0; lane < s.lanes; lane++) {
            const size_t at = row(lane, r, job, s.dim);
            for (uint32_t d = from; d < to; d++) streams[at + d] += landing.own * source[at + d];
          }
          continue;
        }
        const float each = landing.own - landing.others;
        for (uint32_t d = from; d < to; d++) {
          float total = 0.0f;
          for (uint32_t lane = 0; lane < s.lanes; lane++) total += source[row(lane, r, job, s.dim) + d];
          total *= landing.others;
          for (uint32_t lane = 0; lane < s.lanes; lane++) {
            const size_t at = row(lane, r, job, s.dim) + d;
            streams[at] += each * source[at] + total;
          }
        }
      }
    }
  }

  void logits(const Job& job, uint32_t t) {
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
      k->product({arenas[t]->data() + run.at, head.type, s.dim, run.blocks,
                  x + size_t(run.lane) * rows * s.dim, s.dim, rows,
                  job.logits + size_t(run.lane) * head.out + at, s.vocab, head.out - at});
    }
  }

  kog_shape s;
  const uint32_t group, lane_heads, lane_kv, q_width, qkv_width, ffn, value_width;
  const size_t cache_size;
  const Kernels* k;
  const std::vector<double> frequencies;
  std::vector<Layer> layers;
  std::vector<Step> steps;
  Packed head;
  std::vector<const uint8_t*> head_blocks;  // [parts * blocks]
  const void* table = nullptr;              // an untied embedding
  Floats norm;
  std::vector<std::unique_ptr<Arena>> arenas;
  Floats streams, outputs, normed, qkv, mixed, hidden, turns;
  size_t stride = 0;
  std::vector<Scratch> scratch;
  Team team;  // last: its threads use all of the above
};

// ── the C interface ──

#ifndef KOG_SOURCES
#define KOG_SOURCES ""
#endif

extern "C" {

const char kog_sources[] = "kogagent-sources:" KOG_SOURCES;

kog_model* kog_open(const kog_shape* shape) {
  try {
    return new kog_model(*shape);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void kog_close(kog_model* model) { delete model; }

const char* kog_program(const kog_model* model) { return model->k->name; }

int kog_choose(kog_model* model, const char* program) {
  for (const Kernels* k : {kernels_avx512(), kernels_avx2(), kernels_portable()}) {
    if (k == nullptr || strcmp(k->name, program) != 0) continue;
    model->k = k;
    return 1;
  }
  return 0;
}

float kog_pack(kog_model* model, uint32_t layer, uint32_t matrix, const void* first, const void* second) {
  return model->pack(model->layers[layer].matrices[matrix], first, second);
}

float kog_pack_head(kog_model* model, const void* head) {
  return model->pack(model->head, head, nullptr);
}

void kog_set_embedding(kog_model* model, const void* table) { model->table = table; }

void kog_set_vectors(kog_model* model, uint32_t layer, const float* attn_norm, const float* ffn_norm,
                     const float* bias, const float* q_norm, const float* k_norm) {
  Layer& to = model->layers[layer];
  const auto copy = [](Floats& v, const float* from, size_t n) {
    if (from != nullptr) v.assign(from, from + n);
  };
  copy(to.attn_norm, attn_norm, model->s.dim);
  copy(to.ffn_norm, ffn_norm, model->s.dim);
  copy(to.bias, bias, size_t(model->s.lanes) * model->qkv_width);
  copy(to.q_norm, q_norm, model->s.head_dim);
  copy(to.k_norm, k_norm, model->s.head_dim);
}

void kog_set_norm(kog_model* model, const float* norm) { model->norm.assign(norm, norm + model->s.dim); }

int kog_run(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
            const uint32_t* ids, uint32_t n, uint32_t want, float* logits) {
  try {
    model->run({static_cast<uint8_t*>(keys), static_cast<uint8_t*>(values), capacity, position, n, want, ids,
                logits});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_run_greedy(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
                   const uint32_t* ids, uint32_t n, kog_greedy* plan) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  try {
    const uint32_t vocab = model->s.vocab;
    const float* x = plan->logits;
    plan->emitted = plan->passes = plan->broken = 0;
    uint32_t last = 0;
    while (plan->emitted < plan->most && position + n <= capacity) {
      model->run({static_cast<uint8_t*>(keys), static_cast<uint8_t*>(values), capacity, position, n, KOG_LAST,
                  ids, plan->logits});
      plan->passes++;
      position += n;
      const float top = model->k->largest(x, vocab);
      const double total = model->k->exp_sum(x, vocab, top);
      uint32_t best = 0;
      float most = model->k->largest(x, plan->legal);
      while (best < plan->legal && x[best] != most) best++;
      if (!std::isfinite(top) || !std::isfinite(total) || !std::isfinite(most) || best == plan->legal) {
        plan->broken = 1;
        return 0;
      }
      plan->ids[plan->emitted] = last = best;
      plan->logprobs[plan->emitted++] = float(double(x[best] - top) - log(total));
      if (plan->stops[best] || *plan->stop) break;
      if (std::chrono::duration<double>(Clock::now() - start).count() >= plan->seconds) break;
      ids = &last;
      n = 1;
    }
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

}  // extern "C"
