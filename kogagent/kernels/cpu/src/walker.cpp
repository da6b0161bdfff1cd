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

extern "C" {

kog_walker* kog_open_walker(const kog_tables* tables, const kog_vocabulary* vocabulary) {
  try {
    return new kog_walker(*tables, *vocabulary);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void kog_close_walker(kog_walker* walker) { delete walker; }

int kog_find_forced(kog_walker* walker, uint32_t state, const uint32_t* frames, kog_forced* out) {
  try {
    walker->frames.clear();
    return walker->forced(walker->frames.read(state, frames), *out) ? 1 : 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_go_along(kog_walker* walker, uint32_t state, const uint32_t* frames, uint32_t bytes, kog_place* out) {
  try {
    walker->frames.clear();
    walker->go_along(walker->frames.read(state, frames), bytes, *out);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_find_mask(kog_walker* walker, uint32_t state, const uint32_t* frames, const kog_tree* body,
                  const uint32_t* base, uint32_t budget, uint32_t* out) {
  try {
    walker->frames.clear();
    return walker->mask(walker->frames.read(state, frames), body, base, budget, out) ? 0 : 1;
  } catch (const std::exception&) {
    return -1;
  }
}

kog_ahead* kog_open_ahead(kog_walker* walker, const uint8_t* bodies, const kog_tree* backwards) {
  try {
    return new kog_ahead(*walker, bodies, *backwards);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void kog_close_ahead(kog_ahead* ahead) { delete ahead; }

int kog_turn_to(kog_ahead* ahead, uint32_t state, const uint32_t* frames) {
  try {
    ahead->turn_to(state, frames);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_met(kog_ahead* ahead, uint32_t state, const uint32_t* frames) {
  try {
    ahead->met(state, frames);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_look_ahead(kog_ahead* ahead, kog_place* out) {
  try {
    return ahead->step(*out);
  } catch (const std::exception&) {
    return -1;
  }
}

}  // extern "C"
