// What is legal and what is forced in a configuration: an automaton walked along a vocabulary's tree.

#include "walker.h"

#include <exception>

#include "ahead.h"
#include "masks.h"

struct kog_walker : kog::Walker {
  using kog::Walker::Walker;
};

struct kog_ahead : kog::Ahead {
  using kog::Ahead::Ahead;
};

namespace {

// What `call` answers; -1 where it throws, as for want of memory: nothing may be thrown into C.
template <class F>
int guarded(const F& call) {
  try {
    return call();
  } catch (const std::exception&) {
    return -1;
  }
}

// What `make` makes, nullptr where it throws.
template <class F>
auto made(const F& make) {
  decltype(make()) what = nullptr;
  guarded([&] {
    what = make();
    return 0;
  });
  return what;
}

kog::Place place_of(kog_walker* walker, uint32_t state, const uint32_t* frames) {
  walker->frames.clear();
  return walker->frames.read(state, frames);
}

}  // namespace

extern "C" {

kog_walker* kog_open_walker(const kog_tables* tables, const kog_vocabulary* vocabulary) {
  return made([&] { return new kog_walker(*tables, *vocabulary); });
}

void kog_close_walker(kog_walker* walker) { delete walker; }

int kog_find_forced(kog_walker* walker, uint32_t state, const uint32_t* frames, kog_forced* out) {
  return guarded([&] { return walker->forced(place_of(walker, state, frames), *out) ? 1 : 0; });
}

int kog_go_along(kog_walker* walker, uint32_t state, const uint32_t* frames, uint32_t bytes, kog_place* out) {
  return guarded([&] {
    walker->go_along(place_of(walker, state, frames), bytes, *out);
    return 0;
  });
}

int kog_find_mask(kog_walker* walker, uint32_t state, const uint32_t* frames, const kog_tree* body,
                  const uint32_t* base, uint32_t budget, uint32_t* out) {
  return guarded([&] { return walker->mask(place_of(walker, state, frames), body, base, budget, out) ? 0 : 1; });
}

kog_ahead* kog_open_ahead(kog_walker* walker, const uint8_t* bodies, const kog_tree* backwards) {
  return made([&] { return new kog_ahead(*walker, bodies, *backwards); });
}

void kog_close_ahead(kog_ahead* ahead) { delete ahead; }

int kog_turn_to(kog_ahead* ahead, uint32_t state, const uint32_t* frames) {
  return guarded([&] {
    ahead->turn_to(state, frames);
    return 0;
  });
}

int kog_met(kog_ahead* ahead, uint32_t state, const uint32_t* frames) {
  return guarded([&] {
    ahead->met(state, frames);
    return 0;
  });
}

int kog_look_ahead(kog_ahead* ahead, kog_place* out) {
  return guarded([&] { return ahead->step(*out); });
}

}  // extern "C"
