// The traits of the sources, and that other code reads them in place of names.
#include "agent/platform/discovery/sources.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Sources, WhatIsNoSourceHasNoTraits) {
  for (const char* name : {"", kFromOptions, kSingleNode, "moon"}) {
    const Traits& traits = TraitsOf(name);
    EXPECT_EQ(FindSource(name), nullptr) << name;
    EXPECT_EQ(traits.termination_grace, absl::ZeroDuration()) << name;
    EXPECT_EQ(traits.retry.code, 0) << name;
    EXPECT_EQ(traits.container, nullptr) << name;
    EXPECT_FALSE(traits.is_pod) << name;
  }
}

// The origin of a default is shown to people.
TEST(Sources, WhatHasDefaultsHasALabel) {
  for (const Source& source : Sources()) {
    const Traits& traits = source.traits;
    const bool has_defaults = traits.termination_grace > absl::ZeroDuration() || traits.retry.code != 0 ||
                              traits.replaces_no_node || traits.stderr_means_error ||
                              traits.container != nullptr || traits.deadline.variable != nullptr;
    EXPECT_TRUE(!has_defaults || *traits.label != '\0') << source.name;
  }
}

TEST(Sources, LabelsAreNamedOnceInTheirOrder) {
  EXPECT_THAT(LabelsOf([](const Traits& t) { return t.termination_grace > absl::ZeroDuration(); }),
              ElementsAre("Vertex AI", "SageMaker", "Slurm"));
  EXPECT_THAT(LabelsOf([](const Traits&) { return false; }), IsEmpty());
}

TEST(Sources, PodsAreKnownByPlatformOrVariable) {
  EXPECT_TRUE(InPod("volcano", {}));
  EXPECT_TRUE(InPod("", {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}));
  EXPECT_TRUE(InPod("pytorchjob", {{"PET_MASTER_ADDR", "a"}}));
  EXPECT_FALSE(InPod("pytorchjob", {{"PET_NNODES", "2"}})) << "a user may have set it";
  EXPECT_FALSE(InPod("slurm", {{"PET_MASTER_ADDR", "a"}}));
}

TEST(Sources, VariablesAreKnownByNameOrBeginning) {
  EXPECT_TRUE(IsPlatformVariable("SLURM_PROCID"));
  EXPECT_TRUE(IsPlatformVariable("RANK"));
  EXPECT_FALSE(IsPlatformVariable("RANKS"));
  EXPECT_FALSE(IsPlatformVariable("MY_SLURM_PROCID"));
  EXPECT_TRUE(IsJobVariable("SLURM_STEP_ID"));
  EXPECT_FALSE(IsJobVariable("SLURM_JOB_ID")) << "muster local keeps it";
}

// A new platform needs no change there: what differs between platforms is a trait.
TEST(Sources, NoNameIsWrittenInThePlan) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* folder : {"cli/plan", "cli/env"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(MUSTER_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      ++files;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      for (const Source& source : Sources()) {
        if (source.name == std::string_view("trainer")) continue;  // env_report: also the role of a node
        EXPECT_FALSE(absl::StrContains(text.str(), absl::StrCat("\"", source.name, "\"")))
            << entry.path() << ": " << source.name;
      }
    }
  }
  EXPECT_GE(files, 15) << "no sources found: have the folders moved?";
}

}  // namespace
}  // namespace muster::discovery
