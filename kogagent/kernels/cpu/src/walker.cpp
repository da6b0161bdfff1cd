// What is legal and what is forced in a configuration: an automaton walked along a vocabulary's tree.

#include "walker.h"

#include <exception>

#include "masks.h"

struct kog_walker : kog::Walker {
  using kog::Walker::Walker;
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

}  // extern "C"
