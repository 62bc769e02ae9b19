// Why a worker failed, in its own words.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "agent/host/error_file.h"

namespace muster::host {
namespace {

TEST(ErrorFileTest, BothShapesThatTorchWritesAreRead) {
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1"}}})"),
            "ValueError: x");
  EXPECT_EQ(ParseErrorFile(R"({"message": "plain"})"), "plain");
}

TEST(ErrorFileTest, AnythingElseSaysNothing) {
  for (const char* content :
       {"", "garbage", "[]", "{}", R"({"message": 7})", R"({"message": {}})", "{\"message\": \"cut"}) {
    EXPECT_EQ(ParseErrorFile(content), "") << content;
  }
}

TEST(ErrorFileTest, AFileOfAnEarlierRoundIsNotTakenForThisOnes) {
  ErrorFiles files;
  const std::string path = files.Prepare(1);
  ASSERT_FALSE(path.empty());
  std::ofstream(path) << R"({"message": "first"})";
  EXPECT_EQ(files.Read(1), "first");
  EXPECT_EQ(files.Prepare(1), path);
  EXPECT_EQ(files.Read(1), "");
}

TEST(ErrorFileTest, ALinkAPipeAndAnEndlessFileDoNoHarm) {
  ErrorFiles files;
  ErrorFiles elsewhere;
  const std::string target = elsewhere.Prepare(0);
  std::ofstream(target) << R"({"message": "of somebody else"})";
  ASSERT_EQ(elsewhere.Read(0), "of somebody else");
  ASSERT_EQ(symlink(target.c_str(), files.Prepare(0).c_str()), 0);
  ASSERT_EQ(mkfifo(files.Prepare(1).c_str(), 0600), 0);
  std::ofstream(files.Prepare(2)) << "{\"message\": \"" << std::string(kMaxErrorFileBytes, 'x') << "\"}";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(files.Read(i), "") << i;
}

TEST(ErrorFileTest, TheFolderIsGoneAfterwards) {
  std::string folder;
  {
    ErrorFiles files;
    const std::string path = files.Prepare(0);
    std::ofstream(path) << "x";
    folder = path.substr(0, path.rfind('/'));
    ASSERT_EQ(access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster::host
