#include "runner/policies/spec_checks.h"

#include "runner/base/error.h"
#include "runner/policies/parts.h"

namespace kvscope {
namespace {

struct Check {
  const std::string& where;
  void refuse_if(bool wrong, const std::string& why) const {
    if (wrong) throw UsageError(where + why);
  }
};

}  // namespace

void check_combinations(const std::string& where, const PolicyInfo& info, const PolicySpec& spec) {
  const Check check{where};
  const Composition parts = compose(spec);
  const std::string name(info.name);
  const bool streaming = spec.prefill == PrefillMode::kStreaming;
  const bool evicts = !spec.is_full() && name != "quest";

  check.refuse_if(!evicts && spec.decode != DecodeMode::kSelf,
                  name + " never evicts, so decode=" + spec.params.at("decode") +
                      " means nothing; leave it out");
  check.refuse_if(!evicts && (parts.allocates() || parts.page),
                  name +
                      " never evicts, so there is no budget to share out and no page to drop; "
                      "put the part after a score that evicts");
  check.refuse_if(!info.has_in_stream_rule && spec.decode == DecodeMode::kSelf,
                  name +
                      " acts at the prompt's end only and has no rule for decoding; use "
                      "decode=grow, window, tova or h2o");
  check.refuse_if(spec.every > 1 && spec.decode == DecodeMode::kGrow,
                  "every=" + std::to_string(spec.every) +
                      " means nothing with decode=grow, which never selects again");
  check.refuse_if(streaming && !info.streams_prompt,
                  name +
                      " acts at the prompt's end only, so there is nothing to do during a "
                      "streaming prefill; use prefill=monolithic or two_pass");
  check.refuse_if(streaming && (parts.cake || parts.heads || parts.sparse_prefill),
                  "budgets by scores of a whole prompt and sparse prompt rows need the dense "
                  "prompt; use prefill=monolithic or two_pass");
  check.refuse_if(parts.page && spec.decode != DecodeMode::kSelf,
                  "pages leave under the score's own rule; use decode=self or leave +page out");
  check.refuse_if(parts.page && info.own_page,
                  name + " has pages of its own (block=…); leave +page out");
  check.refuse_if(info.selects_itself && (parts.cake || parts.heads || parts.page),
                  name +
                      " says which tokens stay and not what each is worth, so budgets by score and "
                      "whole pages have nothing to go by; leave the part out");
  const auto scope = spec.params.find("scope");
  const auto heads = spec.params.find("heads");
  const bool by_layer = (scope != spec.params.end() && scope->second == "layer") ||
                        (heads != spec.params.end() && heads->second == "summed");
  check.refuse_if(parts.heads && by_layer,
                  name +
                      " keeps one set for all heads of a layer, which leaves nothing to share "
                      "out between heads; leave +adakv out");
  check.refuse_if(name == "quest" && spec.positions != PositionMode::kAbsolute,
                  "quest bounds keys at their own positions; use positions=absolute");
  const bool absolute = spec.positions == PositionMode::kAbsolute;
  check.refuse_if(name == "quest" && parts.storage.format == Storage::Format::kKivi,
                  "quest bounds keys as they joined, which kivi quantises later; use kv_int8");
  check.refuse_if(name == "keydiff" && spec.positions == PositionMode::kCacheRelative,
                  "keydiff compares keys after RoPE, which a cache of relative positions does not "
                  "hold; use positions=absolute or rerotate");
  check.refuse_if(name == "expected_attention" && streaming && !absolute,
                  "expected_attention turns queries to original positions; use positions=absolute "
                  "in a streamed prompt");
  check.refuse_if(spec.positions == PositionMode::kRerotate && parts.storage.is_quantised(),
                  "rerotate would quantise every key anew at each eviction; use positions=absolute "
                  "or cache_relative");
  check.refuse_if(parts.heads && parts.heads->normalize && (name == "knorm" || name == "keydiff"),
                  "normalize=true weighs heads by shares of scores, and " + name +
                      "'s scores are negative; leave normalize out");
  check.refuse_if(parts.sparse_prefill && parts.cake,
                  "cake's budgets and sparse prompt rows do not go together in this build; leave "
                  "one of them out");
  const bool kivi = parts.storage.format == Storage::Format::kKivi;
  check.refuse_if(kivi && evicts && (spec.decode != DecodeMode::kGrow || streaming),
                  "kivi's key groups span tokens, so no token can leave after it was quantised; "
                  "use decode=grow with prefill=monolithic, or kv_int8");
  check.refuse_if(kivi && parts.cake,
                  "kivi's key groups span tokens, so cake's cascade cannot cut a layer again; use "
                  "kv_int8");
  check.refuse_if(kivi && spec.positions != PositionMode::kAbsolute,
                  "kivi quantises keys at their own positions; use positions=absolute");
  check.refuse_if(kivi && parts.storage.residual_tokens % parts.storage.group_tokens != 0,
                  "kivi's residual must be a multiple of its group");
}

}  // namespace kvscope
