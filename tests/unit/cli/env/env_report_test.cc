#include "cli/env/env_report.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class EnvReportTest : public testing::Test {
 protected:
  EnvReportTest() {
    plan_.shown.lines = {{"preflight", R"(curl -H "Authorization: Bearer hunter2" http://h)", "--preflight"},
                         {"rdzv-endpoint", "u:hunter2@h", "--rdzv-endpoint"}};
  }

  RunPlan plan_;
  machine::Interpreter interpreter_;
  machine::Accelerators accelerators_;
  Environment environment_ = {{"NCCL_A", "u:hunter2@h"},
                              {"MUSTER_PREFLIGHT", "curl -H 'Cookie: hunter2'"},
                              {"MUSTER_TOKEN", "hunter2"},
                              {"NCCL_DEBUG", "IN\x1b[1mFO"}};
  const EnvReport report_ = {plan_, interpreter_, accelerators_, environment_};
};

TEST_F(EnvReportTest, NoSecretIsPrinted) {
  for (const std::string& text : {EnvTable(report_), EnvJson(report_)}) {
    EXPECT_FALSE(Has(text, "hunter2")) << text;
    EXPECT_TRUE(Has(text, "********@h")) << text;
    EXPECT_TRUE(Has(text, "Authorization: ********")) << text;
    EXPECT_TRUE(Has(text, "Cookie: ********")) << text;
  }
}

TEST_F(EnvReportTest, AValueCannotControlTheTerminal) {
  EXPECT_TRUE(Has(EnvTable(report_), R"(NCCL_DEBUG=IN\x1b[1mFO)"));
}

TEST_F(EnvReportTest, WhatWorkersGetAndDoNotGetIsShown) {
  plan_.host.config.set_slots(2);
  plan_.launch.environment.slots = 2;
  environment_["WORLD_SIZE"] = "64";
  const std::string text = EnvTable(report_);
  EXPECT_TRUE(Has(text, "\nOMP_NUM_THREADS=1\n")) << text;
  EXPECT_TRUE(Has(text, "for each round and rank: ")) << text;
  EXPECT_TRUE(Has(text, ", MASTER_ADDR, MASTER_PORT,")) << text;
  EXPECT_TRUE(Has(text, "\nwithout: MUSTER_PREFLIGHT, MUSTER_TOKEN\n")) << text;
  environment_["OMP_NUM_THREADS"] = "8";
  EXPECT_FALSE(Has(EnvTable(report_), "\nOMP_NUM_THREADS=1\n"));
}

}  // namespace
}  // namespace muster::cli
