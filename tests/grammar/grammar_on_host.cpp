// csrc/grammar.cuh as plain C++, so that tests can hold it to the matcher without a device.
#include <cstddef>

struct uint2 {
    unsigned x, y;
};
#define __device__
#define __forceinline__ static inline
#define __ldg(p) (*(p))
using word = unsigned long long;
static inline word load_word_anywhere(const word* p) { return *p; }
#include "grammar.cuh"

static Configuration configuration_of(const Grammar& g, const Relay& r) {
    Configuration c = {};
    c.state = r.state;
    c.top = r.top;
    for (int i = 0; i <= r.top; i++) {
        c.site[i] = r.site[i];
        c.count[i] = r.count[i];
    }
    summarise(g, c);
    return c;
}

extern "C" {
unsigned sizes(int which) { return which ? sizeof(Relay) : sizeof(Grammar); }

void verdicts(const Grammar* g, const Relay* at, int first, int rows, unsigned* out) {
    const Configuration c = configuration_of(*g, *at);
    for (int i = 0; i < rows; i++) out[i] = verdict_of(*g, c, first + i);
}

void take_id(const Grammar* g, Relay* at, int id) {
    Configuration c = configuration_of(*g, *at);
    advance(*g, c, id);
    at->state = c.state;
    at->top = c.top;
    for (int i = 0; i <= c.top; i++) {
        at->site[i] = c.site[i];
        at->count[i] = c.count[i];
    }
}
}
