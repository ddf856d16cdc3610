// Loading plug-ins: what is refused, and how a loaded one appears in the grammar.
#include "runner/policies/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runner/base/sha256.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string fixture(const std::string& name) { return KVSCOPE_PLUGIN_DIR "/" + name + ".so"; }

PolicyCatalog catalog_with(std::vector<std::string> names) {
  for (std::string& name : names) name = fixture(name);
  return catalog_with_plugins(names);
}

template <typename F>
std::string usage_error(F&& action) {
  try {
    action();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "(nothing was thrown)";
}

std::string load_error(const std::string& file) {
  return usage_error([&] { catalog_with_plugins(std::vector{file}); });
}

// One line that starts with the file.
void expect_load_error(const std::string& file, const std::string& part) {
  const std::string error = load_error(file);
  EXPECT_THAT(error, AllOf(StartsWith("policy plug-in " + file + ": "), HasSubstr(part),
                           Not(HasSubstr("\n"))));
}

TEST(Plugin, FilesThatAreNoPluginAreRefused) {
  expect_load_error("/nowhere/rule.so", "no such file");
  expect_load_error(KVSCOPE_PLUGIN_DIR, "not a file");
  const std::string text = (std::filesystem::path(::testing::TempDir()) /
                            ("kvscope_text_" + std::to_string(::getpid()) + ".so"))
                               .string();
  std::ofstream(text) << "a text";
  expect_load_error(text, "cannot be loaded");
  std::filesystem::remove(text);
}

TEST(Plugin, LibrariesThatBreakTheInterfaceAreRefused) {
  expect_load_error("/lib/x86_64-linux-gnu/libz.so.1", "exports no kvscope_policy_abi_version");
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"no_entry", "exports no kvscope_policy_plugin"},
      {"wrong_version",
       "built for version 99 of the plug-in interface, this program has version 1"},
      {"no_policy", "returned no policy"},
      {"bad_name", "\"My-Rule\""},
      {"no_select", "function select is null"},
      {"bad_needs", "unknown bits"},
      {"common_key", "decode is a key of every policy"},
      {"bad_default", "window=9 is not allowed"},
      {"clash", "\"h2o\" is taken by a built-in policy"},
      {"clash_with_part", "\"kivi\" is taken by a part"}};
  for (const auto& [name, part] : faults) expect_load_error(fixture(name), part);
}

TEST(Plugin, TwoOfOneNameAreRefused) {
  EXPECT_THAT(usage_error([] {
                catalog_with({"newest", "newest"});
              }),
              HasSubstr("\"newest\" is taken by plug-in " + fixture("newest")));
}

TEST(Plugin, AppearsInTheGrammar) {
  const PolicyCatalog catalog = catalog_with({"attention_average", "newest"});
  const PolicySpec spec = parse_policy("attention_average:decay=0.50:positions=rerotate", catalog);
  EXPECT_EQ(spec.canonical, "attention_average:decay=0.5:positions=rerotate");
  EXPECT_EQ(spec.params.at("recent"), "auto");
  EXPECT_TRUE(spec.acts_in_stream());
  EXPECT_EQ(parse_policy_list("h2o,newest", catalog)[1].score, "newest");
  EXPECT_THAT(usage_error([&] { parse_policy("attention_average:decy=1", catalog); }),
              HasSubstr("did you mean \"decay\""));
  EXPECT_THAT(usage_error([&] { parse_policy("attention_average:decay=2", catalog); }),
              HasSubstr("decay takes float 0…1"));
  EXPECT_THAT(usage_error([&] { parse_policy("newst", catalog); }), HasSubstr("newest"));
  // Only where it was loaded.
  EXPECT_THAT(usage_error([] { parse_policy("newest"); }), HasSubstr("unknown policy"));
}

TEST(Plugin, PartsThatNeedScoresAreRefused) {
  const PolicyCatalog catalog = catalog_with({"newest"});
  for (const char* part : {"adakv", "cake", "page"}) {
    EXPECT_THAT(usage_error([&] { parse_policy(std::string("newest+") + part, catalog); }),
                HasSubstr("says which tokens stay"))
        << part;
  }
  EXPECT_NO_THROW(parse_policy("newest+pyramid+kv_int8", catalog));
}

TEST(Plugin, OneThatActsAtThePromptsEndGrowsAfterIt) {
  const PolicyCatalog catalog = catalog_with({"prompt_end_only"});
  const PolicySpec spec = parse_policy("prompt_end_only", catalog);
  EXPECT_EQ(spec.decode, DecodeMode::kGrow);
  EXPECT_FALSE(spec.acts_in_stream());
  EXPECT_THAT(usage_error([&] { parse_policy("prompt_end_only:prefill=streaming", catalog); }),
              HasSubstr("prompt's end only"));
}

TEST(Plugin, TheFilesHashIsAParameterThatNobodyWrites) {
  const PolicyCatalog catalog = catalog_with({"newest"});
  const PolicySpec spec = parse_policy("newest", catalog);
  const std::string sha256 = sha256_file_hex(fixture("newest"));
  EXPECT_EQ(spec.params.at("plugin_sha256"), sha256);
  EXPECT_EQ(spec.canonical, "newest");
  const auto policy = fit_policy(spec, {{.permille = {}, .tokens = 4}, 9, false});
  EXPECT_EQ(policy->fitted_params().at("plugin_sha256"), sha256);
  EXPECT_THAT(usage_error([&] { parse_policy("newest:plugin_sha256=0", catalog); }),
              HasSubstr("no parameter"));
}

TEST(Plugin, OutlivesItsCatalogue) {
  std::shared_ptr<const Policy> policy;
  {
    const PolicySpec spec = parse_policy("newest", catalog_with({"newest"}));
    policy = fit_policy(spec, {{.permille = {}, .tokens = 2}, 9, true});
  }
  auto state = policy->make_state({}, {});
  policy = nullptr;
  const std::vector<std::int32_t> positions{4, 9, 7, 8};
  EXPECT_THAT(state->select(positions), ::testing::ElementsAre(1, 3));
  EXPECT_EQ(state->error(), "");
}

}  // namespace
}  // namespace kvscope
