/* A rule without state, for plug-ins whose point is something else: the newest tokens stay. */
#ifndef KVSCOPE_TESTS_PLUGIN_STUB_H
#define KVSCOPE_TESTS_PLUGIN_STUB_H

#include <stdlib.h>

#include "kvscope_policy_plugin.h"

static inline void* stub_create(const kvscope_unit* unit) {
  (void)unit;
  return calloc(1, 1);
}
static inline void* stub_clone(const void* state) {
  (void)state;
  return calloc(1, 1);
}
static inline void stub_destroy(void* state) { free(state); }
static inline int32_t stub_observe(void* state, const kvscope_row* row) {
  (void)state;
  (void)row;
  return 0;
}
static inline int32_t stub_compact(void* state, const int32_t* old_slot_of, int32_t n_slots) {
  (void)state;
  (void)old_slot_of;
  (void)n_slots;
  return 0;
}
/* Descending by position, to show that any order will do. */
static inline int32_t stub_select(const void* state, const kvscope_slots* slots,
                                  int32_t budget_tokens, int32_t* keep, int32_t capacity) {
  (void)state;
  (void)capacity;
  int32_t n = 0;
  for (int32_t i = 0; i < slots->n_slots; ++i) {
    int32_t newer = 0;
    for (int32_t k = 0; k < slots->n_slots; ++k) newer += slots->positions[k] > slots->positions[i];
    if (newer < budget_tokens) keep[n++] = i;
  }
  for (int32_t i = 1; i < n; ++i) {
    for (int32_t k = i; k > 0 && slots->positions[keep[k]] > slots->positions[keep[k - 1]]; --k) {
      const int32_t slot = keep[k];
      keep[k] = keep[k - 1];
      keep[k - 1] = slot;
    }
  }
  return n;
}

static inline kvscope_policy stub_policy(const char* name) {
  const kvscope_policy policy = {
      .name = name,
      .summary = "Keeps the newest tokens.",
      .needs = 0,
      .scope = KVSCOPE_SCOPE_HEAD,
      .acts_in_stream = 1,
      .slot_state_bytes = 0,
      .params = NULL,
      .n_params = 0,
      .create = stub_create,
      .clone = stub_clone,
      .destroy = stub_destroy,
      .observe = stub_observe,
      .select = stub_select,
      .compact = stub_compact,
  };
  return policy;
}

#endif
