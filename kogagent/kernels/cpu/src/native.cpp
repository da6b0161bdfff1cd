// The C interface to a model: open, pack, run; and the memory's read bandwidth.

#include <string.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "model.h"

#ifndef KOG_SOURCES
#define KOG_SOURCES ""
#endif

using kog::Floats;

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

const char* kog_program(const kog_model* model) { return (model == nullptr ? kog::best_kernels() : model->k)->name; }

int kog_choose(kog_model* model, const char* program) {
  const kog::Kernels* k = kog::named_kernels(program);
  if (k == nullptr) return 0;
  model->k = k;
  return 1;
}

float kog_pack(kog_model* model, uint32_t layer, uint32_t matrix, const kog_tensor* tensors) {
  return model->pack(layer, matrix, tensors);
}

uint64_t kog_stream_bytes(const kog_model* model, uint32_t thread) { return model->stream(thread).used(); }

const void* kog_stream(const kog_model* model, uint32_t thread) { return model->stream(thread).data(); }

void kog_fill(kog_model* model, const void* const* streams) { model->fill(streams); }

float kog_narrow(uint32_t type, const float* from, uint64_t n, uint16_t* to) {
  return kog::narrow(*kog::best_kernels(), type, from, n, to);
}

void kog_set_embedding(kog_model* model, uint32_t type, const void* table) {
  model->table = table;
  model->table_type = type;
}

void kog_set_vectors(kog_model* model, uint32_t layer, const float* attn_norm, const float* ffn_norm,
                     const float* bias, const float* q_norm, const float* k_norm) {
  kog::Layer& to = model->layers[layer];
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
                logits, model->s.vocab});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

double kog_read_bandwidth(uint32_t threads, uint64_t bytes, uint32_t repeats) {
  try {
    const kog::Kernels* k = kog::best_kernels();
    const size_t each = bytes / threads / 1024 * 1024;
    std::vector<std::unique_ptr<kog::Arena>> arenas(threads);
    std::vector<float> kept(threads);
    kog::Team team(threads);
    const auto touch = [&](uint32_t t) {  // each its own: pages lie where they are first touched
      try {
        arenas[t] = std::make_unique<kog::Arena>(each);
        memset(arenas[t]->data(), 0, each);
      } catch (const std::exception&) {
      }
    };
    team.run([&](uint32_t w) { team.each(w, touch); });
    for (const auto& arena : arenas)
      if (arena == nullptr) return 0.0;
    double best = 0.0;
    for (const uint32_t streams : {1u, 2u, 4u}) {
      const kog::Clock::time_point start = kog::Clock::now();
      for (uint32_t i = 0; i < repeats; i++)
        team.run([&](uint32_t w) {
          team.each(w, [&](uint32_t t) { kept[t] = k->read(arenas[t]->data(), each, streams); });
        });
      best = std::max(best, double(each) * threads * repeats / kog::seconds_since(start));
    }
    return best + 0.0 * kept[0];
  } catch (const std::exception&) {
    return 0.0;
  }
}

}  // extern "C"
