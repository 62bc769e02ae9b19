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

}  // namespace
}  // namespace muster::cli
