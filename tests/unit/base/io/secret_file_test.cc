// Which files are trusted with tokens and keys.
#include "base/io/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kUs = 1000;

std::string WhyNot(const FileFacts& facts) {
  const absl::Status status = CheckFile(facts, kUs, 100, "/f");
  return status.ok() ? "" : std::string(status.message());
}

TEST(CheckFileTest, OursAndRootsAreTrusted) {
  EXPECT_EQ(WhyNot({.owner = kUs, .mode = 0600, .bytes = 100}), "");
  EXPECT_EQ(WhyNot({.owner = 0, .mode = 0644}), "");
  EXPECT_EQ(WhyNot({.owner = 1001, .mode = 0600}),
            "it belongs to user 1001, and muster runs as user 1000: chown 1000 /f");
}

TEST(CheckFileTest, WhatOthersCanWriteIsNot) {
  EXPECT_EQ(WhyNot({.owner = kUs, .mode = 0620}),
            "users other than its owner can write it (mode 0620): chmod 600 /f");
  EXPECT_EQ(WhyNot({.owner = 0, .mode = 0602}),
            "users other than its owner can write it (mode 0602): chmod 600 /f");
}

TEST(CheckFileTest, OnlySmallRegularFilesAreRead) {
  EXPECT_EQ(WhyNot({.regular = false, .owner = kUs}), "it is not a regular file: name a file");
  EXPECT_EQ(WhyNot({.owner = kUs, .bytes = 101}), "expected at most 100 bytes, not 101: name another file");
}

TEST(WarningAboutTest, SecretsThatEveryoneCanReadAreNamed) {
  const auto warning = [](mode_t mode, FileKind kind, bool read_only) {
    return WarningAbout({.mode = mode, .read_only = read_only}, kind, "/f");
  };
  EXPECT_EQ(warning(0644, FileKind::kSecret, false),
            "every user of this machine can read it (mode 0644): chmod 600 /f");
  EXPECT_EQ(warning(0640, FileKind::kSecret, false), "");
  EXPECT_EQ(warning(0644, FileKind::kSecret, true), "") << "as Kubernetes mounts secrets";
  EXPECT_EQ(warning(0644, FileKind::kPublic, false), "");
}

class ReadSecretFileTest : public ::testing::Test {
 protected:
  ReadSecretFileTest() {
    char name[] = "/tmp/muster-secret-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ReadSecretFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text, mode_t mode) const {
    std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string folder_;
};

TEST_F(ReadSecretFileTest, ALinkIsFollowedAndNamedByItsOwnPath) {
  Write("..data", "text", 0600);
  std::filesystem::create_symlink("..data", folder_ + "/token");
  const auto file = ReadSecretFile(folder_ + "/token", FileKind::kSecret, 100);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text, "text");
  EXPECT_EQ(file->path, folder_ + "/token");
  EXPECT_EQ(file->warning, "");
}

TEST_F(ReadSecretFileTest, ALinkOfAnotherUserIsRefused) {
  Write("known", "text", 0600);
  const std::string link = folder_ + "/token";
  std::filesystem::create_symlink("known", link);
  if (lchown(link.c_str(), 104'243, -1) != 0) GTEST_SKIP() << "only root";
  const absl::Status status = ReadSecretFile(link, FileKind::kSecret, 100).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a link that another user owns"));
}

TEST_F(ReadSecretFileTest, AFolderThatMayNotBeEnteredIsNoForeignLink) {
  const std::string path = Write("token", "text", 0600);
  chmod(folder_.c_str(), 0700);
  if (seteuid(104'243) != 0) GTEST_SKIP() << "only root";
  const absl::Status status = ReadSecretFile(path, FileKind::kSecret, 100).status();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(status.message(), "the file cannot be read: Permission denied");
}

TEST_F(ReadSecretFileTest, ARelativePathStaysUsableElsewhere) {
  const std::string path = Write("token", "text", 0644);
  const auto relative = std::filesystem::relative(path, std::filesystem::current_path()).string();
  const auto file = ReadSecretFile(relative, FileKind::kSecret, 100);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->path.starts_with("/")) << file->path;
  EXPECT_TRUE(std::filesystem::equivalent(file->path, path));
  EXPECT_THAT(file->warning, HasSubstr("(mode 0644)"));
}

TEST_F(ReadSecretFileTest, OtherFilesAreRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {folder_ + "/fifo", folder_, Write("shared", "text", 0666), Write("large", "12345", 0600)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ReadSecretFile(path, FileKind::kSecret, 4).status())) << path;
  }
  EXPECT_THAT(ReadSecretFile(folder_ + "/missing", FileKind::kSecret, 4).status().message(),
              HasSubstr("the file cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace muster
