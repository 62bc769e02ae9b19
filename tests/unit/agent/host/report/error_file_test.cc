// A worker's error file.
#include "agent/host/report/error_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/host/core/host_core.h"

namespace muster::host {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);  // a test that hangs fails

TEST(ErrorFileTest, RecordsFileIsReadWhole) {
  const WorkerError error = ParseErrorFile(
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Trace\n x", "timestamp": "17"}}})");
  EXPECT_EQ(error.message, "ValueError: x");
  EXPECT_EQ(error.callstack, "Trace\n x");
  EXPECT_EQ(error.failed_at_s, 17);
}

TEST(ErrorFileTest, ThePlainShapeIsRead) {
  EXPECT_EQ(ParseErrorFile(R"({"message": "plain"})").message, "plain");
  EXPECT_FALSE(ParseErrorFile(R"({"message": "plain"})").failed_at_s);
  EXPECT_EQ(ParseErrorFile(R"({"message": "plain", "timestamp": 1700000000})").failed_at_s, 1'700'000'000);
  EXPECT_EQ(ParseErrorFile(R"({"message": "plain", "timestamp": 1700000000.9})").failed_at_s, 1'700'000'000);
}

TEST(ErrorFileTest, MissingPartsAreTolerated) {
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": "m"}})").message, "m");
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": "m", "extraInfo": 7}})").message, "m");
  EXPECT_EQ(
      ParseErrorFile(R"({"message": {"message": 7, "extraInfo": {"py_callstack": "T\nKeyError: k\n"}}})").message,
      "KeyError: k");
}

TEST(ErrorFileTest, AnInvalidTimestampIsIgnored) {
  for (const char* stamp : {"\"\"", "\"soon\"", "-1", "0", "1e300", "null", "[]", "\"nan\"", "\"inf\""}) {
    const std::string content = std::string(R"({"message": "m", "timestamp": )") + stamp + "}";
    EXPECT_FALSE(ParseErrorFile(content).failed_at_s) << stamp;
    EXPECT_EQ(ParseErrorFile(content).message, "m") << stamp;
  }
}

TEST(ErrorFileTest, OtherContentIsReportedWithItsFirstLine) {
  EXPECT_EQ(ParseErrorFile("").message, "the error file is empty");
  EXPECT_EQ(ParseErrorFile("garb\xff ge\nmore").message, "the error file is not JSON: garb? ge");
  EXPECT_EQ(ParseErrorFile("{}").message, "the error file has no \"message\": {}");
  EXPECT_EQ(ParseErrorFile("[]").message, "the error file has no \"message\": []");
  EXPECT_EQ(ParseErrorFile(R"({"message": 7})").message,
            R"(the error file has a "message" that is no text: {"message": 7})");
  EXPECT_EQ(ParseErrorFile(R"({"message": {}})").message,
            R"(the error file says nothing in its "message": {"message": {}})");
  EXPECT_EQ(ParseErrorFile("{\"message\": \"\xff\"}").message.rfind("the error file is not JSON", 0), 0u);
  EXPECT_LT(ParseErrorFile(std::string(100'000, 'x')).message.size(), 300u);
  EXPECT_FALSE(ParseErrorFile(std::string(200'000, '[')).message.empty());
}

TEST(ErrorFileTest, ALongCallstackKeepsItsFirstLineAndEnd) {
  std::string stack = "Traceback (most recent call last):\n";
  for (int i = 0; i < 1000; ++i) stack += "  File \\\"\xc3\xa4.py\\\", line " + std::to_string(i) + "\n";
  std::string escaped;
  for (const char c : stack) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  const std::string kept =
      ParseErrorFile(R"({"message": {"message": "m", "extraInfo": {"py_callstack": ")" + escaped + "\"}}}")
          .callstack;
  EXPECT_LE(kept.size(), kMaxErrorText);
  EXPECT_GT(kept.size(), kMaxErrorText / 2);
  EXPECT_EQ(kept.rfind("Traceback (most recent call last):\n  [...]\n  File \"", 0), 0u) << kept;
  EXPECT_TRUE(kept.ends_with("line 999\n"));
}

TEST(ErrorFileTest, AnEarlierRoundsFileIsIgnored) {
  ErrorFiles files;
  EXPECT_EQ(files.PathOf(1), "");
  EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
  const std::string path = files.PathOf(1);
  ASSERT_FALSE(path.empty());
  std::ofstream(path) << R"({"message": "first"})";
  EXPECT_EQ(ReadErrorFile(path)->message, "first");
  EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
  EXPECT_EQ(files.PathOf(1), path);
  EXPECT_FALSE(ReadErrorFile(path));
}

TEST(ErrorFileTest, AnEarlierRoundsDoneFileIsRemoved) {
  ErrorFiles files;
  EXPECT_EQ(files.DonePathOf(1), "");
  EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
  const std::string path = files.DonePathOf(1);
  EXPECT_NE(path, files.DonePathOf(0));
  EXPECT_FALSE(FileExists(path));
  std::ofstream(path) << "";
  EXPECT_TRUE(FileExists(path));
  EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
  EXPECT_FALSE(FileExists(path));
}

TEST(ErrorFileTest, UnsuitableFilesDoNoHarm) {
  ErrorFiles files;
  EXPECT_TRUE(files.BeginRound(5, kPatience).ok());
  const std::string target = files.PathOf(0);
  std::ofstream(target) << R"({"message": "of somebody else"})";
  ASSERT_EQ(symlink(target.c_str(), files.PathOf(1).c_str()), 0);
  ASSERT_EQ(mkfifo(files.PathOf(2).c_str(), 0600), 0);
  std::ofstream(files.PathOf(3)) << "{\"message\": \"" << std::string(kMaxErrorFileBytes, 'x') << "\"}";
  EXPECT_FALSE(ReadErrorFile(files.PathOf(4)));
  EXPECT_EQ(ReadErrorFile(files.PathOf(1))->message.rfind("the error file cannot be read", 0), 0u);
  EXPECT_EQ(ReadErrorFile(files.PathOf(2))->message, "the error file is empty");
  EXPECT_EQ(ReadErrorFile(files.PathOf(3))->message.rfind("the error file is longer than", 0), 0u);
  EXPECT_EQ(ReadErrorFile("/")->message.rfind("the error file cannot be read", 0), 0u);
  EXPECT_FALSE(ReadErrorFile(""));
}

TEST(ErrorFileTest, TheFolderIsGoneAfterwards) {
  std::string folder;
  {
    ErrorFiles files;
    EXPECT_TRUE(files.BeginRound(1, kPatience).ok());
    const std::string path = files.PathOf(0);
    std::ofstream(path) << "x";
    folder = path.substr(0, path.rfind('/'));
    ASSERT_EQ(access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

TEST(ErrorFileTest, AFolderInPlaceOfAFileIsRemoved) {
  std::string folder;
  {
    ErrorFiles files;
    EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
    const std::string path = files.PathOf(0);
    folder = path.substr(0, path.rfind('/'));
    const auto put_folder = [](const std::string& at) {
      std::filesystem::create_directories(at + "/in/it");
      std::ofstream(at + "/in/file") << "x";
    };
    put_folder(path);
    EXPECT_TRUE(files.BeginRound(2, kPatience).ok());
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "the next worker needs the path for its file";
    put_folder(path);
    put_folder(folder + "/another");
  }
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster::host
