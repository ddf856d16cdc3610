/* attention_average: a policy plug-in to start from.
 *
 *   score_t(i) = decay * score_{t-1}(i) + a_t(i)
 *   keep       : the `recent` newest tokens, then the largest scores; of equals the newer
 *
 * where a_t(i) is the attention of row t on token i, mean over the unit's query heads.
 *
 *   kvscope score --policy-plugin ./attention_average.so --policy attention_average:decay=0.9 …
 */
#include "kvscope_policy_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  float decay;
  int32_t recent; /* tokens */
  int32_t n_slots;
  int32_t capacity;
  float* score; /* [n_slots] */
} unit_state;

static void* create(const kvscope_unit* unit) {
  unit_state* s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  /* In the order of `params`; the host has checked both. */
  s->decay = strtof(unit->arguments[0].value, NULL);
  s->recent = strcmp(unit->arguments[1].value, "auto") == 0
                  ? unit->budget_tokens / 2
                  : (int32_t)strtol(unit->arguments[1].value, NULL, 10);
  if (s->recent > unit->budget_tokens) s->recent = unit->budget_tokens;
  if (s->recent < 1 && unit->protect_last) s->recent = 1;
  return s;
}

static void destroy(void* state) {
  unit_state* s = state;
  free(s->score);
  free(s);
}

static int reserve(unit_state* s, int32_t n) {
  if (n <= s->capacity) return 0;
  const int32_t capacity = 2 * n;
  float* score = realloc(s->score, (size_t)capacity * sizeof *score);
  if (score == NULL) return -1;
  s->score = score;
  s->capacity = capacity;
  return 0;
}

static void* clone(const void* state) {
  const unit_state* from = state;
  unit_state* s = malloc(sizeof *s);
  if (s == NULL) return NULL;
  *s = *from;
  s->score = NULL;
  s->capacity = 0;
  if (from->n_slots > 0) {
    if (reserve(s, from->n_slots) < 0) {
      free(s);
      return NULL;
    }
    memcpy(s->score, from->score, (size_t)from->n_slots * sizeof *s->score);
  }
  return s;
}

static int32_t observe(void* state, const kvscope_row* row) {
  unit_state* s = state;
  const int32_t n = row->n_slots;
  if (reserve(s, n) < 0) return -1;
  while (s->n_slots < n) s->score[s->n_slots++] = 0.0F; /* the row's own token */
  const float scale = 1.0F / (float)row->n_query_heads;
  for (int32_t i = 0; i < n; ++i) {
    float a = row->probabilities[i];
    for (int32_t h = 1; h < row->n_query_heads; ++h) a += row->probabilities[(size_t)h * n + i];
    s->score[i] = s->decay * s->score[i] + a * scale;
  }
  return 0;
}

typedef struct {
  int32_t slot;
  int32_t position;
  int32_t is_recent;
  float score;
} candidate;

/* Who stays comes first. A strict order, so that the result is one. */
static int compare(const void* left, const void* right) {
  const candidate* a = left;
  const candidate* b = right;
  if (a->is_recent != b->is_recent) return b->is_recent - a->is_recent;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->position > b->position ? -1 : 1;
}

static int32_t select_slots(const void* state, const kvscope_slots* slots, int32_t budget_tokens,
                            int32_t* keep, int32_t capacity) {
  (void)capacity; /* n_slots, more than budget_tokens */
  const unit_state* s = state;
  candidate* all = malloc((size_t)slots->n_slots * sizeof *all);
  if (all == NULL) return -1;
  int32_t newest = slots->positions[0];
  for (int32_t i = 1; i < slots->n_slots; ++i) {
    if (slots->positions[i] > newest) newest = slots->positions[i];
  }
  /* Older tokens may be gone, so the newest `recent` positions hold as many tokens only while none
   * of them has left, which this rule sees to. */
  for (int32_t i = 0; i < slots->n_slots; ++i) {
    const int32_t position = slots->positions[i];
    all[i] = (candidate){i, position, position > newest - s->recent, s->score[i]};
  }
  qsort(all, (size_t)slots->n_slots, sizeof *all, compare);
  for (int32_t i = 0; i < budget_tokens; ++i) keep[i] = all[i].slot;
  free(all);
  return budget_tokens;
}

static int32_t compact(void* state, const int32_t* old_slot_of, int32_t n_slots) {
  unit_state* s = state;
  float* moved = malloc((size_t)n_slots * sizeof *moved);
  if (moved == NULL) return -1;
  for (int32_t i = 0; i < n_slots; ++i) moved[i] = s->score[old_slot_of[i]];
  free(s->score);
  s->score = moved;
  s->n_slots = s->capacity = n_slots;
  return 0;
}

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }

const kvscope_policy* kvscope_policy_plugin(void) {
  static const kvscope_param params[] = {
      {"decay", "0.99", "float 0..1"},
      {"recent", "auto", "0.. (auto: half of B)"},
  };
  static const kvscope_policy policy = {
      .name = "attention_average",
      .summary = "Keeps recent tokens and those with the most attention lately.",
      .needs = KVSCOPE_NEEDS_PROBABILITIES,
      .scope = KVSCOPE_SCOPE_HEAD,
      .acts_in_stream = 1,
      .slot_state_bytes = sizeof(float),
      .params = params,
      .n_params = 2,
      .create = create,
      .clone = clone,
      .destroy = destroy,
      .observe = observe,
      .select = select_slots,
      .compact = compact,
  };
  return &policy;
}
