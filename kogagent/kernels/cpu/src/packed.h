// Matrices cut into a thread's rows and packed in the order in which it reads them. Knows no layers.

#ifndef KOG_PACKED_H
#define KOG_PACKED_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "blocks.h"
#include "halves.h"
#include "kernels.h"
#include "native.h"

namespace kog {

// Memory of one thread, on huge pages where the system has them; touched first by whoever packs.
class Arena {
 public:
  explicit Arena(size_t bytes) : used_(bytes), bytes_((bytes + kPage - 1) / kPage * kPage) {
    data_ = static_cast<uint8_t*>(aligned_alloc(kPage, bytes_ ? bytes_ : kPage));
    if (data_ == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish: refused without harm
#endif
  }
  ~Arena() { free(data_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  uint8_t* data() const { return data_; }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kPage = size_t(1) << 21;
  size_t used_, bytes_;
  uint8_t* data_;
};

using Ends = std::array<size_t, kPlaces>;  // bytes in each place

// What one thread reads: in each of some places from its beginning to its end, through all matrices. The processor's
// own prefetching follows a few places at once better than one, and never sees the end of one.
class Stream {
 public:
  explicit Stream(const Ends& ends) : arena_(std::accumulate(ends.begin(), ends.end(), size_t(0))) {
    uint8_t* at = arena_.data();
    for (uint32_t p = 0; p < kPlaces; at += ends[p++]) places_[p] = at;
  }
  uint8_t* place(uint32_t p) const { return places_[p]; }
  uint8_t* at(const uint8_t* w) const { return data() + (w - data()); }  // the same, to be written
  uint8_t* data() const { return arena_.data(); }
  size_t used() const { return arena_.used(); }

 private:
  const Arena arena_;
  uint8_t* places_[kPlaces];
};

// Neighbouring blocks of one lane and type that one thread reads, dealt out evenly to its places.
struct Run {
  uint32_t lane, block, blocks, type;
  Ends at;  // where they begin in each place
};

struct Section {  // of a lane's blocks: from `block` on they have this type
  uint32_t block, type;
};

// Some of them.
struct Piece {
  const Run* run;
  bool whole;
  Place places[kPlaces];
};

// L matrices [out, in]; with `pair`, two of the same shape whose blocks alternate.
struct Packed {
  uint32_t lanes = 0, out = 0, in = 0;
  std::vector<Section> sections;        // the first begins at block 0
  bool pair = false;
  uint32_t grain = 1;                   // blocks that stay together, counted from a lane's first
  std::vector<std::vector<Run>> runs;   // of each thread
  std::vector<uint32_t> kept;           // units (below) in each thread's first runs that no other may read for it

  uint32_t blocks() const { return (out + kBlock - 1) / kBlock; }
  size_t unit(uint32_t type) const { return block_bytes(type, in) * (pair ? 2 : 1); }
  uint32_t type() const { return sections[0].type; }  // of a matrix that has one alone

  // A run is so many units: grains, the last of a lane may be smaller. They are counted across the places: the first
  // of each, then the second of each; neighbouring ones lie behind each other in a place.
  uint32_t units(const Run& run) const { return (run.blocks + grain - 1) / grain; }
  uint32_t first_unit(const Run& run, uint32_t p) const {  // in the order of rows; p may be kPlaces
    return units(run) / kPlaces * p + std::min(units(run) % kPlaces, p);
  }
  // Blocks of place p from its unit `from` on, before `to`.
  Place place(const Run& run, const Stream& stream, uint32_t p, uint32_t from, uint32_t to) const {
    const uint32_t start = first_unit(run, p), first = (start + from) * grain;
    const uint32_t last = std::min((start + to) * grain, run.blocks);
    return {stream.place(p) + run.at[p] + size_t(from) * grain * unit(run.type), run.block + first, last - first};
  }
  // The units from .. to of a run.
  Piece piece(const Run& run, const Stream& stream, uint32_t from, uint32_t to) const {
    Piece out{&run, from == 0 && to == units(run), {}};
    for (uint32_t p = 0, n = 0; p < kPlaces; p++) {
      const uint32_t first = (from + kPlaces - 1 - p) / kPlaces, last = (to + kPlaces - 1 - p) / kPlaces;
      if (first == last) continue;
      const Place place = this->place(run, stream, p, first, last);
      uint32_t i = n++;
      for (; i > 0 && out.places[i - 1].blocks < place.blocks; i--) out.places[i] = out.places[i - 1];
      out.places[i] = place;
    }
    return out;
  }
  Piece piece(const Run& run, const Stream& stream) const { return piece(run, stream, 0, units(run)); }
  size_t bytes(const Run& run, uint32_t p) const {  // of place p
    const uint32_t from = std::min(first_unit(run, p) * grain, run.blocks);
    return size_t(std::min(first_unit(run, p + 1) * grain, run.blocks) - from) * unit(run.type);
  }
  uint32_t units(uint32_t t) const {
    uint32_t n = 0;
    for (const Run& run : runs[t]) n += units(run);
    return n;
  }

  // Cut into threads. same_rows: every lane the same way, so that a thread has the same rows of all lanes;
  // otherwise evenly over all lanes' blocks. `ends`: of each thread's stream so far.
  void cut(uint32_t threads, bool same_rows, std::vector<Ends>& ends) {
    start(threads);
    const uint32_t n = (blocks() + grain - 1) / grain;
    for (uint32_t t = 0; t < threads; t++) {
      for (uint32_t lane = 0; lane < lanes; lane++) {
        const uint64_t all = same_rows ? n : uint64_t(n) * lanes;
        const uint64_t base = same_rows ? 0 : uint64_t(lane) * n;
        const uint64_t from = std::max(all * t / threads, base), to = std::min(all * (t + 1) / threads, base + n);
        if (from >= to) continue;
        const uint32_t first = uint32_t(from - base) * grain;
        add(t, lane, first, std::min(uint32_t(to - base) * grain, blocks()) - first, ends);
      }
    }
  }

  // Cut so that the last rows of each lane, `heads` times `wide` blocks, go whole heads to a thread and first, kept
  // by it; of all other blocks each thread has as many as make all even.
  void cut_heads(uint32_t threads, uint32_t heads, uint32_t wide, std::vector<Ends>& ends) {
    start(threads);
    const uint32_t others = blocks() - heads * wide;  // of a lane
    uint32_t head = 0, other = 0;
    for (uint32_t t = 0; t < threads; t++) {
      const uint32_t head_end = uint32_t(uint64_t(lanes) * heads * (t + 1) / threads);
      while (head < head_end) {
        const uint32_t lane = head / heads, n = std::min(head_end - head, heads - head % heads);
        add(t, lane, others + head % heads * wide, n * wide, ends);
        kept[t] += n * wide;
        head += n;
      }
      const uint32_t all = uint32_t(uint64_t(lanes) * blocks() * (t + 1) / threads);
      const uint32_t left = all > head * wide ? all - head * wide : 0;
      const uint32_t other_end = t + 1 == threads ? lanes * others : std::min(lanes * others, left);
      while (other < other_end) {
        const uint32_t lane = other / others, n = std::min(other_end - other, others - other % others);
        add(t, lane, other % others, n, ends);
        other += n;
      }
    }
  }

 private:
  void start(uint32_t threads) {
    runs.assign(threads, {});
    kept.assign(threads, 0);
  }
  void add(uint32_t t, uint32_t lane, uint32_t block, uint32_t n, std::vector<Ends>& ends) {
    for (size_t i = 0; i < sections.size(); i++) {
      const uint32_t from = std::max(block, sections[i].block);
      const uint32_t to = std::min(block + n, i + 1 < sections.size() ? sections[i + 1].block : blocks());
      if (from >= to) continue;
      const Run run{lane, from, to - from, sections[i].type, ends[t]};
      runs[t].push_back(run);
      for (uint32_t p = 0; p < kPlaces; p++) ends[t][p] += bytes(run, p);
    }
  }
};

inline uint16_t half_at(const void* p, size_t i) {
  uint16_t half;
  memcpy(&half, static_cast<const uint8_t*>(p) + 2 * i, 2);
  return half;
}

// A row of an unpacked matrix: numbers of a type, or, from kOfBlocks on, GGML's blocks of a kind.
constexpr uint32_t kOfBlocks = KOG_OF_BLOCKS;
static_assert(kNumbers == kGroup, "a block's numbers share what a group's weights share");

inline size_t row_bytes(uint32_t type, uint32_t in) {
  if (type >= kOfBlocks) {
    const Blocks& f = *blocks_of(type - kOfBlocks);
    return size_t(in / kNumbers / f.groups) * f.bytes();
  }
  return size_t(in) * (type == kF32 ? 4 : 2);
}

// Where group g's quads lie in an INT8 block, and the FP16 scales of a group.
inline size_t quads_at(uint32_t type, uint32_t g) {
  return size_t(g) * 512 + (type == kI8 ? size_t(g / 2 + 1) * 64 : 64);
}
inline size_t scales_at(uint32_t g) { return size_t(g / 2) * (2 * 512 + 64) + g % 2 * 32; }

// n numbers of a 16-bit type or FP32 as floats.
inline void widen(const Kernels& k, uint32_t type, const uint8_t* from, size_t n, float* to) {
  switch (type) {
    case kF16: return k.to_floats(from, n, to);
    case kBF16:
      for (size_t i = 0; i < n; i++) to[i] = from_bf16(half_at(from, i));
      return;
    default: memcpy(to, from, n * sizeof(float));
  }
}

// n floats in a 16-bit type. Returns 0, or infinity where a number lies beyond that type's range.
inline float narrow(const Kernels& k, uint32_t type, const float* from, size_t n, uint16_t* to) {
  if (type == kBF16) {
    for (size_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
  } else {
    k.to_halves(from, n, to);
  }
  const uint32_t infinity = type == kBF16 ? 0x7f80u : 0x7c00u;
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++) found |= (to[i] & 0x7fffu) == infinity;
  for (size_t i = 0; found && i < n; i++)
    if ((to[i] & 0x7fffu) == infinity && std::isfinite(from[i])) return INFINITY;
  return 0.0f;
}

// Row r's 32 integers of a group below 8 bits.
inline void put_whole(uint32_t type, const int32_t* whole, uint32_t r, uint8_t* group) {
  const uint32_t above = bits_of(type) - 4;
  uint8_t* halves = group + above * 64;
  for (uint32_t i = 0; i < kGroup; i += 4)
    for (uint32_t j = 0; j < 4; j++) {
      uint8_t& both = halves[i / 8 * 64 + 4 * r + j];
      const uint32_t one = uint32_t(whole[i + j]), low = one & 15u;
      both = uint8_t(i % 8 ? both | low << 4 : low);
      if (above == 0) continue;
      uint8_t& high = group[above * i / 32 * 64 + 4 * r + j];
      const uint32_t at = above * i / 4 % 8, bits = one >> 4 << at;
      high = uint8_t(at ? high | bits : bits);
    }
}

inline uint32_t get_whole(uint32_t type, uint32_t r, uint32_t i, const uint8_t* group) {
  const uint32_t above = bits_of(type) - 4, at = 4 * r + i % 4;
  const uint32_t both = group[above * 64 + i / 8 * 64 + at], low = i % 8 < 4 ? both & 15u : both >> 4u;
  if (above == 0) return low;
  return low | (group[above * i / 32 * 64 + at] >> above * (i / 4) % 8 & ((1u << above) - 1u)) << 4;
}

// n weights of a group as the nearest of 16 steps from the least to the largest, in FP16 both step and least. Returns
// the largest difference, infinity beyond FP16's range.
inline float pack_group(const float* w, uint32_t n, uint32_t r, uint8_t* lead, uint8_t* group) {
  float low = n ? w[0] : 0.0f, high = low, off = 0.0f;
  for (uint32_t i = 1; i < n; i++) {
    low = std::min(low, w[i]);
    high = std::max(high, w[i]);
  }
  const uint16_t least = to_f16(low), scale = to_f16((high - low) / 15.0f);
  const float from = from_f16(least), step = from_f16(scale), inverse = step > 0.0f ? 1.0f / step : 0.0f;
  if (!std::isfinite(from) || !std::isfinite(step)) return INFINITY;
  int32_t whole[kGroup] = {};
  for (uint32_t i = 0; i < n; i++) {
    whole[i] = int32_t(std::min(15.0f, std::max(0.0f, std::nearbyint((w[i] - from) * inverse))));
    off = std::max(off, std::fabs(w[i] - (from + step * float(whole[i]))));
  }
  memcpy(lead + 2 * r, &scale, 2);
  memcpy(lead + 2 * kBlock + 2 * r, &least, 2);
  put_whole(kI4, whole, r, group);
  return off;
}

// Whether an integer type says all that blocks of a kind say.
inline bool holds(uint32_t type, const Blocks& f) {
  if (type < kI4) return type == kI8 && !f.is_super() && !f.has_least;
  return is_super(type) == f.is_super() && f.bits <= bits_of(type) && f.bits < 8 && (type == kK6) == (f.bits == 6);
}

// A row of blocks in a type that holds them; nullptr: zeros.
inline void pack_row_of_blocks(uint32_t type, uint32_t in, const Blocks* f, const uint8_t* row, uint32_t r, uint8_t* to) {
  for (uint32_t g = 0; g < groups_of(in); g++) {
    Opened group{};
    if (f != nullptr) open_group(*f, row + g / f->groups * f->bytes(), g % f->groups, group);
    if (type == kI8) {
      memcpy(to + scales_at(g) + 2 * r, &group.scale, 2);
      for (uint32_t i = 0; i < kGroup; i++)
        to[quads_at(kI8, g) + i / 4 * 64 + 4 * r + i % 4] = uint8_t(group.whole[i] - int32_t(f ? f->zero : 0) + 128);
      continue;
    }
    uint8_t* lead = to + lead_at(type, g);
    put_whole(type, group.whole, r, to + whole_at(type, g));
    if (is_super(type))
      for (uint32_t i = 0; i < 2; i++) lead[64 + g % 8 * 32 + i * kBlock + r] = uint8_t(group.steps[i]);
    if (type == kK6) {
      const float scale = from_f16(group.scale);
      memcpy(lead + 4 * r, &scale, 4);
      continue;
    }
    uint16_t least = group.least;
    if (is_super(type)) least ^= 0x8000u;  // there it is taken off
    else if (f != nullptr && !f->has_least) least = to_f16(-float(f->zero) * from_f16(group.scale));
    memcpy(lead + 2 * r, &group.scale, 2);
    memcpy(lead + 2 * kBlock + 2 * r, &least, 2);
  }
}

// One row of a block of I8, I8_ROW or I4. Returns what kog_pack does.
inline float pack_row(uint32_t type, uint32_t in, const Kernels& k, const float* w, uint32_t r, uint8_t* to) {
  const float top = w == nullptr ? 0.0f : k.largest_size(w, in);
  float scale = top / 127.0f, off = 0.0f;
  if (type == kI8Row) memcpy(to + 4 * r, &scale, 4);
  for (uint32_t g = 0; g < groups_of(in); g++) {
    const uint32_t from = g * kGroup, n = w == nullptr ? 0 : std::min(kGroup, in - from);
    if (type == kI4) {
      off = std::max(off, pack_group(n ? w + from : nullptr, n, r, to + lead_at(kI4, g), to + whole_at(kI4, g)));
      continue;
    }
    if (type == kI8) {
      const uint16_t half = to_f16(n ? k.largest_size(w + from, n) / 127.0f : 0.0f);
      scale = from_f16(half);
      memcpy(to + scales_at(g) + 2 * r, &half, 2);
    }
    off = std::max(off, k.to_bytes(n ? w + from : nullptr, n, scale, to + quads_at(type, g) + 4 * r));
  }
  return top > 0 ? off / top : 0.0f;
}

// One row of a matrix as floats.
inline void widen_row(const Kernels& k, uint32_t type, const uint8_t* row, uint32_t n, float* to) {
  if (type < kOfBlocks) return widen(k, type, row, n, to);
  const Blocks& f = *blocks_of(type - kOfBlocks);
  for (uint32_t g = 0; g < n / kNumbers; g++)
    numbers_of(f, row + g / f.groups * f.bytes(), g % f.groups, to + g * kNumbers);
}

struct Row {  // of an unpacked matrix; nullptr: zeros
  uint32_t type;
  const uint8_t* data;
};

// 16 rows of `in` columns in an integer type.
inline float pack_integers(uint32_t type, uint32_t in, const Kernels& k, const Row* rows, uint8_t* to) {
  // The scales of a group that is not there: what is packed depends on nothing that the memory held before.
  if (type == kI8 && groups_of(in) % 2) memset(to + scales_at(groups_of(in)), 0, 2 * kBlock);
  const bool only_blocks = type == kI5 || is_super(type);
  std::vector<float> opened(in);
  float worst = 0.0f;
  for (uint32_t r = 0; r < kBlock; r++) {
    const Blocks* f = rows[r].data && rows[r].type >= kOfBlocks ? blocks_of(rows[r].type - kOfBlocks) : nullptr;
    if (f ? holds(type, *f) : !rows[r].data && only_blocks) {
      pack_row_of_blocks(type, in, f, rows[r].data, r, to);
    } else if (only_blocks) {
      return INFINITY;
    } else {
      if (rows[r].data) widen_row(k, rows[r].type, rows[r].data, in, opened.data());
      worst = std::max(worst, pack_row(type, in, k, rows[r].data ? opened.data() : nullptr, r, to));
    }
  }
  return worst;
}

// 16 rows of `in` columns. Returns what kog_pack does.
inline float pack_block(uint32_t type, uint32_t in, const Kernels& k, const Row* rows, uint8_t* to) {
  if (is_quantised(type)) return pack_integers(type, in, k, rows, to);
  std::vector<float> opened;  // rows of blocks
  constexpr uint32_t some = 64;  // a few columns at a time: their lines stay in the cache
  float worst = 0.0f;
  if (rows[kBlock - 1].data == nullptr || type == kBF16) memset(to, 0, block_bytes(type, in));
  std::array<Row, kBlock> plain;
  std::copy_n(rows, kBlock, plain.begin());
  for (uint32_t r = 0; r < kBlock; r++) {
    if (rows[r].data == nullptr || rows[r].type < kOfBlocks) continue;
    opened.resize(size_t(kBlock) * in);
    widen_row(k, rows[r].type, rows[r].data, in, &opened[size_t(r) * in]);
    plain[r] = {kF32, reinterpret_cast<const uint8_t*>(&opened[size_t(r) * in])};
  }
  for (uint32_t from = 0; from < in; from += some) {
    const uint32_t n = std::min(some, in - from);
    for (uint32_t r = 0; r < kBlock && plain[r].data != nullptr; r++) {
      const uint8_t* row = plain[r].data + row_bytes(plain[r].type, from);
      float floats[some];
      uint16_t halves[some];
      if (plain[r].type != type) {
        widen(k, plain[r].type, row, n, floats);
        row = reinterpret_cast<const uint8_t*>(floats);
        if (type != kF32) {
          worst = std::max(worst, narrow(k, type, floats, n, halves));
          row = reinterpret_cast<const uint8_t*>(halves);
        }
      }
      switch (type) {
        case kF32:
          for (uint32_t i = 0; i < n; i++) memcpy(to + (size_t(from + i) * kBlock + r) * 4, row + size_t(i) * 4, 4);
          break;
        case kF16:
          for (uint32_t i = 0; i < n; i++) memcpy(to + (size_t(from + i) * kBlock + r) * 2, row + size_t(i) * 2, 2);
          break;
        default:
          for (uint32_t i = 0; i < n; i++)
            memcpy(to + (size_t((from + i) / 2) * kBlock + r) * 4 + i % 2 * 2, row + size_t(i) * 2, 2);
      }
    }
  }
  return worst;
}

// Row `row` (0..15) of a packed block as floats.
inline void unpack_row(uint32_t type, uint32_t in, const uint8_t* block, uint32_t row, float* out) {
  for (uint32_t k = 0; k < in; k++) {
    const uint32_t g = k / kGroup, i = k % kGroup;
    switch (type) {
      case kF32: memcpy(out + k, block + (size_t(k) * kBlock + row) * 4, 4); break;
      case kF16: out[k] = from_f16(half_at(block, size_t(k) * kBlock + row)); break;
      case kBF16: out[k] = from_bf16(half_at(block, (size_t(k / 2) * kBlock + row) * 2 + k % 2)); break;
      case kI8:
      case kI8Row: {
        float scale;
        if (type == kI8Row)
          memcpy(&scale, block + 4 * row, 4);
        else
          scale = from_f16(half_at(block + scales_at(g), row));
        const uint8_t q = block[quads_at(type, g) + i / 4 * 64 + 4 * row + i % 4];
        out[k] = float(int32_t(q) - 128) * scale;
        break;
      }
      default: {
        const uint8_t* lead = block + lead_at(type, g);
        const int8_t* steps = reinterpret_cast<const int8_t*>(lead + 64 + g % led_groups(type) * 32) + row;
        const float whole = float(get_whole(type, row, i, block + whole_at(type, g)));
        float scale = from_f16(half_at(lead, row)), least = from_f16(half_at(lead + 2 * kBlock, row));
        if (type == kK6) {
          memcpy(&scale, lead + 4 * row, 4);
          out[k] = scale * float(steps[i / 16 * kBlock]) * (whole - 32.0f);
          break;
        }
        if (is_super(type)) {
          scale *= float(steps[0]);
          least *= float(steps[kBlock]);
        }
        out[k] = scale * whole + least;
      }
    }
  }
}

}  // namespace kog
#endif
