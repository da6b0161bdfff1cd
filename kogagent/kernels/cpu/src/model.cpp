// Phases of a module, a barrier after each:
//   attention   norm and q, k, v; bias, norm, RoPE of k, append | the same for q, attention | out and landings
//   MLP         norm, gate, up and SiLU | down and landings
// Matrices are cut evenly, and who is done first with a few rows reads the ends of the others' parts. Several lanes:
// a thread has the same columns of all streams everywhere, so that whatever lands there needs no exchange. Where
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
constexpr uint32_t kLinesAhead = 16;    // of the next phase's weights in each place, asked for while a thread waits
constexpr uint32_t kHeadGrain = 8;      // blocks of logits that are summed up together

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

// x's pairs by their angles. cosines: each twice; sines: of the first of a pair with the sign it is added with.
void turn_pairs(float* __restrict x, const float* __restrict cosines, const float* __restrict sines, uint32_t n) {
  for (uint32_t d = 0; d < n; d += 2) {
    const float a = x[d], b = x[d + 1];
    x[d] = a * cosines[d] + b * sines[d];
    x[d + 1] = b * cosines[d + 1] + a * sines[d + 1];
  }
}

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
      kv_width(lane_kv * s.head_dim),
      qkv_width(q_width + 2 * kv_width),
      ffn(s.ffn / s.lanes),
      value_width(round_up(s.head_dim, kBlock)),
      cache_size(s.cache == KOG_F32 ? 4 : 2),
      k(best_kernels()),
      layers(s.layers),
      by_lane(s.lanes > 1 && s.lanes % s.threads == 0),
      owns_heads(by_lane || s.head_dim % kBlock == 0),
      frequencies(s.frequencies, s.frequencies + s.head_dim / 2),
      steps(2 * s.layers),
      scratch(s.threads),
      deal(s.threads),
      team(s.threads) {
  std::vector<Ends> ends(s.threads, Ends{});
  const auto shape_of = [&](Packed& m, uint32_t lanes, uint32_t out, uint32_t in) {
    m.lanes = lanes;
    m.out = out;
    m.in = in;
  };
  const auto type_from = [&](Packed& m, uint32_t row, uint32_t type) {
    any_integers |= is_quantised(type);
    if (m.sections.empty() || m.sections.back().type != type) m.sections.push_back({row / kBlock, type});
  };
  const auto matrix = [&](Packed& m, uint32_t out, uint32_t in, uint32_t type, bool same_rows) {
    shape_of(m, s.lanes, out, in);
    type_from(m, 0, type);
    m.cut(s.threads, same_rows, ends);
  };
  for (uint32_t n = 0; n < s.layers; n++) {
    const uint32_t* types = s.types + 6 * n;
    Layer& layer = layers[n];
    layer.window = s.windows[n];
    Packed& first = layer.matrices[KOG_QKV];
    shape_of(first, s.lanes, qkv_width, s.dim);
    for (uint32_t i = 0, row = 0; i < 3; row += i++ ? kv_width : q_width) type_from(first, row, types[i]);
    if (owns_heads && !by_lane)
      first.cut_heads(s.threads, 2 * lane_kv, s.head_dim / kBlock, ends);
    else
      first.cut(s.threads, false, ends);
    matrix(layer.matrices[KOG_OUT], s.dim, q_width, types[3], !by_lane);
    layer.matrices[KOG_GATE_UP].pair = true;
    matrix(layer.matrices[KOG_GATE_UP], ffn, s.dim, types[4], false);
    matrix(layer.matrices[KOG_DOWN], s.dim, ffn, types[5], !by_lane);
  }
  const uint32_t parts = s.head == KOG_HEAD_SPLIT ? s.lanes : 1;
  shape_of(head, parts, s.vocab / parts, s.dim);
  type_from(head, 0, s.types[6 * s.layers]);
  head.grain = kHeadGrain;
  head.cut(s.threads, false, ends);
  summaries.resize(size_t(parts) * ((head.blocks() + kHeadGrain - 1) / kHeadGrain));
  for (uint32_t t = 0; t < s.threads; t++) weights.push_back(std::make_unique<Stream>(ends[t]));
  head_blocks.resize(size_t(parts) * head.blocks());
  for (uint32_t t = 0; t < s.threads; t++)
    for (const Run& run : head.runs[t])
      for (const Place& place : head.piece(run, *weights[t]).places)
        for (uint32_t b = 0; b < place.blocks; b++)
          head_blocks[size_t(run.lane) * head.blocks() + place.block + b] = place.w + b * head.unit(head.type());
  for (uint32_t i = 0; i < 2 * s.layers; i++) {
    steps[i].slot = s.step_slot[i];
    steps[i].free_from = s.step_free[i];
    for (uint32_t j = s.step_first[i]; j < s.step_first[i + 1]; j++)
      steps[i].landings.push_back({s.land_source[j], s.step_slot[s.land_source[j]], s.land_own[j], s.land_others[j]});
  }
  s.frequencies = nullptr;  // the caller's memory: copied above
  s.types = s.windows = s.step_slot = s.step_free = s.step_first = s.land_source = nullptr;
  s.land_own = s.land_others = nullptr;
}

float Model::pack(uint32_t layer, uint32_t matrix, const kog_tensor* tensors) {
  const Packed& m = matrix == KOG_HEAD ? head : layers[layer].matrices[matrix];
  // A lane's rows from `first` on, and whose they are.
  const auto rows_of = [&](const kog_tensor* tensor, uint32_t lane, uint32_t first) {
    std::array<Row, kBlock> rows{};
    for (uint32_t r = 0; r < kBlock && first + r < m.out; r++) {
      uint32_t at = first + r, out = m.out;
      const kog_tensor* from = tensor;
      if (matrix == KOG_QKV)
        for (out = q_width; at >= out; at -= out, out = kv_width, from++) {}
      const size_t bytes = row_bytes(from->type, m.in);
      rows[r] = {from->type, static_cast<const uint8_t*>(from->data) + (size_t(lane) * out + at) * bytes};
    }
    return rows;
  };
  std::vector<float> worst(s.threads, 0.0f);
  const auto part = [&](uint32_t t) {
    for (const Run& run : m.runs[t])
      for (const Place& place : m.piece(run, *weights[t]).places) {
        uint8_t* to = weights[t]->at(place.w);
        for (uint32_t b = 0; b < place.blocks; b++)
          for (uint32_t i = 0; i < (m.pair ? 2 : 1); i++, to += block_bytes(run.type, m.in)) {
            const auto rows = rows_of(tensors + i, run.lane, (place.block + b) * kBlock);
            worst[t] = std::max(worst[t], pack_block(run.type, m.in, *k, rows.data(), to));
          }
      }
  };
  team.run([&](uint32_t w) { team.each(w, part); });
  return *std::max_element(worst.begin(), worst.end());
}

void Model::fill(const void* const* packed) {
  team.run([&](uint32_t w) {
    team.each(w, [&](uint32_t t) { memcpy(weights[t]->data(), packed[t], weights[t]->used()); });
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
    phase += uint32_t(2 * steps.size()) + 1;
    team.run([&](uint32_t w) { pass(job, w); });
  }
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
  const size_t room = product_room(any_integers ? kI8 : kF32, std::max({s.dim, q_width, ffn}), rows) + 64;
  for (Scratch& own : scratch) {
    grow(own.normed, size_t(kNormedRows) * s.dim);
    const size_t gates = rows > kFewRows ? size_t(kPairsAtOnce) * kBlock : round_up(ffn, kBlock);
    grow(own.gates, size_t(rows) * 2 * gates);
    grow(own.scores, size_t(kQueries) * stride);
    grow(own.head, size_t(head.lanes) * ends * s.dim + 2 * s.dim);
    grow(own.turns, size_t(rows) * 2 * s.head_dim);
    if (own.room.size() < room) own.room.resize(room);
  }
}

void Model::barrier(uint32_t w) {
  const Scratch& own = scratch[team.first(w)];
  team.barrier(w, [&own] {
    for (uint32_t i = 0; i < kLinesAhead; i++)
      for (const uint8_t* next : own.next) __builtin_prefetch(next + 64 * i);
  });
}

// What thread w does of a pass: each phase for each part that is its own; t below is a part.
void Model::pass(const Job& job, uint32_t w) {
  const uint32_t base = team.progress(team.first(w));
  const auto each = [&](const auto& part) { team.each(w, part); };
  each([&](uint32_t t) {
    for (uint32_t p = 0; p < kPlaces; p++) scratch[t].next[p] = weights[t]->place(p);
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
    project(job, w, weight, i);
    if (attends) {
      if (!owns_heads) {
        meet(w);
        each([&](uint32_t t) { append(job, t, i / 2); });
      }
      if (job.want == KOG_NONE && i + 2 == steps.size()) return;  // the last keys and values: nothing else is wanted
      meet(w);
      each([&](uint32_t t) { attend(job, t, layer, i / 2); });
    }
    meet(w);
    const Step& step = steps[i];
    wait(w, base, 2 * step.free_from);
    give(job, w, i);
    advance(w);  // given: two advances a module
    for (const Landed& landing : step.landings)
      if (landing.others != 0.0f) wait(w, base, 2 * landing.source + 1);
    if (s.lanes > 1) each([&](uint32_t t) { land_part(job, t, i); });
    advance(w);  // landed
    meet(w);
  }
  if (by_lane) barrier(w);
  logits(job, w);
}

void Model::embed(const Job& job, uint32_t t) {
  for (uint32_t m = 0; m < job.rows; m++) {  // each thread its own: cheaper than to share them
    float* cosines = &scratch[t].turns[size_t(m) * 2 * s.head_dim];
    float* sines = cosines + s.head_dim;
    for (uint32_t i = 0; i < s.head_dim / 2; i++) {
      const double angle = double(job.position + m) * frequencies[i];
      cosines[2 * i] = cosines[2 * i + 1] = float(cos(angle));
      sines[2 * i + 1] = float(sin(angle));
      sines[2 * i] = -sines[2 * i + 1];
    }
  }
  const uint32_t first = by_lane ? share(s.lanes, t) : 0, last = by_lane ? share(s.lanes, t + 1) : s.lanes;
  for (uint32_t m = by_lane ? 0 : t; m < job.rows; m += by_lane ? 1 : s.threads) {
    float* x = &streams[row(first, m, job, s.dim)];
    const uint32_t id = job.ids[m];
    if (table == nullptr) {
      const uint32_t lane = id / head.out, in_lane = id % head.out;
      unpack_row(head.type(), s.dim, head_blocks[size_t(lane) * head.blocks() + in_lane / kBlock], in_lane % kBlock, x);
    } else {
      widen_row(*k, table_type, static_cast<const uint8_t*>(table) + id * row_bytes(table_type, s.dim), s.dim, x);
    }
    for (uint32_t lane = first + 1; lane < last; lane++)
      memcpy(&streams[row(lane, m, job, s.dim)], x, s.dim * sizeof(float));
  }
}

void Model::multiply(Product p, const Place* places, Scratch& own) {
  std::copy_n(places, kPlaces, p.places);
  void* room = own.room.data();
  size_t space = own.room.size();
  p.room = std::align(64, space - 64, room, space);
  k->product(p);
}

// The norms of many rows, dealt out evenly.
void Model::norm_rows(const Job& job, uint32_t t, const Floats& weight) {
  for (uint32_t u = share(s.lanes * job.rows, t); u < share(s.lanes * job.rows, t + 1); u++)
    k->norm(&streams[size_t(u) * s.dim], weight.data(), s.norm_eps, s.dim, &normed[size_t(u) * s.dim]);
}

// The rows of q, k, v or of gate, up and their product; before that the norms of a few rows. k and v of whole heads
// go into the cache at once.
void Model::project(const Job& job, uint32_t w, const Floats& weight, uint32_t step) {
  const bool attends = step % 2 == 0;
  const Packed& m = layers[step / 2].matrices[attends ? KOG_QKV : KOG_GATE_UP];
  Scratch& own = scratch[team.first(w)];
  uint32_t normed_lane = s.lanes, last_type = kF32;  // of a few rows those of one lane at a time
  if (attends && owns_heads && job.rows <= kFewRows) ask_for_ends(job, w, step / 2);
  share_out(m, 2 * step, job.rows, !by_lane, w, [&](const Piece& piece) {
    const Run& run = *piece.run;
    const float* x = &normed[row(run.lane, 0, job, s.dim)];
    const bool normed_before = run.lane == normed_lane;
    const bool again = normed_before && (run.type == last_type || (is_quantised(run.type) && is_quantised(last_type)));
    if (job.rows <= kNormedRows) {
      for (uint32_t r = 0; r < job.rows && !normed_before; r++)
        k->norm(&streams[row(run.lane, r, job, s.dim)], weight.data(), s.norm_eps, s.dim, &own.normed[r * s.dim]);
      x = own.normed.data();
    }
    normed_lane = run.lane;
    last_type = run.type;
    if (!attends) return gate_up(job, own, m, piece, x, again);
    multiply({run.type, s.dim, x, s.dim, job.rows, &qkv[row(run.lane, 0, job, qkv_width)], qkv_width, qkv_width, nullptr,
              again, {}},
             piece.places, own);
    if (owns_heads && piece.whole) append_heads(job, own, step / 2, run);  // those of heads are never divided
  });
}

void Model::gate_up(const Job& job, Scratch& own, const Packed& m, const Piece& piece, const float* x, bool again) {
  const auto some = [&](const Place* pairs, uint32_t n) {
    Place places[kPlaces] = {};
    uint32_t blocks = 0;
    for (uint32_t p = 0; p < n; blocks += places[p++].blocks) places[p] = {pairs[p].w, blocks, 2 * pairs[p].blocks};
    const uint32_t width = blocks * kBlock;
    float* gates = own.gates.data();
    multiply({m.type(), s.dim, x, s.dim, job.rows, gates, width, width, nullptr, again, {}}, places, own);
    for (uint32_t r = 0; r < job.rows; r++) {
      float* out = &hidden[row(piece.run->lane, r, job, ffn)];
      const float* both = gates + size_t(r) * width;
      for (uint32_t p = 0; p < n; p++)
        for (uint32_t b = 0; b < pairs[p].blocks; b++, both += 2 * kBlock) {
          const uint32_t at = (pairs[p].block + b) * kBlock;
          k->gate(both, std::min(kBlock, ffn - at), out + at);
        }
    }
  };
  if (job.rows <= kFewRows) return some(piece.places, kPlaces);
  for (const Place& place : piece.places)
    for (uint32_t from = 0; from < place.blocks; from += kPairsAtOnce) {
      const Place pairs{place.w + from * m.unit(m.type()), place.block + from, std::min(kPairsAtOnce, place.blocks - from)};
      some(&pairs, 1);
    }
}

// Bias, head norm and RoPE of one head's row, in place.
void Model::turn(const Scratch& own, const Layer& layer, float* x, uint32_t lane, uint32_t head, uint32_t m) const {
  const uint32_t h = s.head_dim;
  if (!layer.bias.empty()) {
    const float* bias = &layer.bias[lane * qkv_width + head * h];
    for (uint32_t d = 0; d < h; d++) x[d] += bias[d];
  }
  if (head >= lane_heads + lane_kv) return;
  const Floats& scale = head < lane_heads ? layer.q_norm : layer.k_norm;
  if (!scale.empty()) k->norm(x, scale.data(), s.norm_eps, h, x);
  turn_pairs(x, &own.turns[size_t(m) * 2 * h], &own.turns[size_t(m) * 2 * h + h], h);
}

// One row's k or v head into the cache; `which` of the lane's k heads, then its v heads.
void Model::append_head(const Job& job, Scratch& own, uint32_t n, uint32_t lane, uint32_t which, uint32_t m) {
  const uint32_t h = s.head_dim, head = lane_heads + which, at = job.position + m;
  const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
  float* x = &qkv[row(lane, m, job, qkv_width) + head * h];
  turn(own, layers[n], x, lane, head, m);
  const size_t store = size_t(n) * s.kv_heads + lane * lane_kv + which % lane_kv;
  if (which < lane_kv)
    write(job.keys, (store * tiles + at / kBlock) * h * kBlock + at % kBlock, kBlock, x);
  else
    write(job.values, (store * job.capacity + at) * value_width, 1, x);
}

// Those heads all of whose rows are in this run.
void Model::append_heads(const Job& job, Scratch& own, uint32_t n, const Run& run) {
  heads_of(run, [&](uint32_t which) {
    for (uint32_t m = 0; m < job.rows; m++) append_head(job, own, n, run.lane, which, m);
  });
}

// t's share of all heads.
void Model::append(const Job& job, uint32_t t, uint32_t n) {
  const uint32_t heads = 2 * lane_kv, units = s.lanes * heads * job.rows;
  for (uint32_t u = share(units, t); u < share(units, t + 1); u++)
    append_head(job, scratch[t], n, u / job.rows / heads, u / job.rows % heads, u % job.rows);
}

// Of the keys and values that w will append the cache's lines: a key's are one for each number or two, far apart.
void Model::ask_for_ends(const Job& job, uint32_t w, uint32_t n) const {
  const uint32_t h = s.head_dim;
  const size_t tiles = (job.capacity + kBlock - 1) / kBlock;
  const size_t tile = h * kBlock * cache_size, row = value_width * cache_size;
  team.each(w, [&](uint32_t t) {
    for (const Run& run : layers[n].matrices[KOG_QKV].runs[t])
      heads_of(run, [&](uint32_t which) {
        const size_t store = size_t(n) * s.kv_heads + run.lane * lane_kv + which % lane_kv;
        const bool is_key = which < lane_kv;
        const uint8_t* to = is_key ? job.keys + (store * tiles + job.position / kBlock) * tile
                                   : job.values + (store * job.capacity + job.position) * row;
        for (size_t at = 0; at < (is_key ? tile : row); at += 64) __builtin_prefetch(to + at, 1);
      });
  });
}

void Model::write(uint8_t* cache, size_t at, size_t stride, const float* x) const {
  if (s.cache == KOG_F32) {
    float* to = reinterpret_cast<float*>(cache) + at;
    for (uint32_t d = 0; d < s.head_dim; d++) to[d * stride] = x[d];
  } else {
    uint16_t* to = reinterpret_cast<uint16_t*>(cache) + at;
    if (stride == 1) return k->to_halves(x, s.head_dim, to);
    constexpr uint32_t some = 4 * kBlock;
    uint16_t halves[some];
    for (uint32_t from = 0; from < s.head_dim; from += some) {
      const uint32_t n = std::min(some, s.head_dim - from);
      k->to_halves(x + from, n, halves);
      for (uint32_t d = 0; d < n; d++) to[(from + d) * stride] = halves[d];
    }
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
      turn(scratch[t], layer, q, lane, head, m);
      for (uint32_t d = 0; d < h; d++) q[d] *= query_scale;
      a.q[i] = q;
      a.out[i] = &mixed[row(lane, m, job, q_width) + head * h];
      a.last[i] = job.position + m + 1;
      a.first[i] = layer.window && a.last[i] > layer.window ? a.last[i] - layer.window : 0;
    }
    k->attend(a);
  }
}

// A module's last product. What lands in a lane alone lands where it was made; of several lanes each column needs all
// lanes' outputs, so that whose columns they are must have made them.
void Model::give(const Job& job, uint32_t w, uint32_t step) {
  const bool attends = step % 2 == 0;
  const Packed& m = layers[step / 2].matrices[attends ? KOG_OUT : KOG_DOWN];
  const Floats& input = attends ? mixed : hidden;
  float* out = &outputs[steps[step].slot * size_t(s.lanes) * job.rows * s.dim];
  uint32_t last_lane = s.lanes;
  share_out(m, 2 * step + 1, job.rows, s.lanes == 1, w, [&](const Piece& piece) {
    const uint32_t lane = piece.run->lane;
    multiply({m.type(), m.in, &input[row(lane, 0, job, m.in)], m.in, job.rows, out + row(lane, 0, job, s.dim), s.dim,
              s.dim, nullptr, lane == last_lane, {}},
             piece.places, scratch[team.first(w)]);
    last_lane = lane;
    for (const Place& place : piece.places)
      if (s.lanes == 1 && place.blocks > 0)
        land(job, 0, 1, place.block * kBlock, std::min(s.dim, (place.block + place.blocks) * kBlock), step);
  });
}

// What lands after it, in t's columns or lanes.
void Model::land_part(const Job& job, uint32_t t, uint32_t step) {
  if (by_lane) return land(job, share(s.lanes, t), share(s.lanes, t + 1), 0, s.dim, step);
  const Packed& m = layers[step / 2].matrices[step % 2 == 0 ? KOG_OUT : KOG_DOWN];
  if (m.runs[t].empty()) return;
  const Run& run = m.runs[t][0];  // the same columns of every lane
  land(job, 0, s.lanes, run.block * kBlock, std::min(s.dim, (run.block + run.blocks) * kBlock), step);
}

// In the columns from .. to of some lanes.
void Model::land(const Job& job, uint32_t first, uint32_t last, uint32_t from, uint32_t to, uint32_t step) {
  const size_t size = size_t(s.lanes) * job.rows * s.dim;
  Landing l{};
  l.lanes = s.lanes;
  l.first = first;
  l.last = last;
  l.lane_step = size_t(job.rows) * s.dim;
  l.n = to - from;
  for (const Landed& landing : steps[step].landings) {
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

}  // namespace kog
