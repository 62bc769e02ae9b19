#include "base/proc/start_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/text/text.h"

namespace muster {
namespace {

// KiB of files' pages that are mapped.
int64_t MappedOfFiles() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "RssFile:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return 0;
}

TEST(StartPagesTest, CodeThatRanOnceIsUnmappedAndRunsAgain) {
  const int64_t before = MappedOfFiles();
  ASSERT_GT(before, 1024);
  DropStartPages();
  EXPECT_LT(MappedOfFiles(), before);
  EXPECT_EQ(OneLine("a\nb"), OneLine("a\nb"));
}

}  // namespace
}  // namespace muster
