// Matrices cut into a thread's rows and packed in the order in which it reads them. Knows no layers.

#ifndef KOG_PACKED_H
#define KOG_PACKED_H

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "kernels.h"

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

}  // namespace kog
#endif
