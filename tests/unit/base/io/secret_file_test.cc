// Which files are trusted with tokens and keys.
#include "base/io/secret_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/io/owned_fd.h"

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

// Between the check and the open another user puts a link to a file with known content into the place.
TEST_F(ReadSecretFileTest, ALinkThatAppearsAfterTheCheckIsNotFollowed) {
  const std::string path = Write("token", "text", 0600), known = Write("known", "known", 0600);
  Place place;
  ASSERT_EQ(FindPlace(path, Links::kEverywhere, &place), 0);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(known, path);
  const absl::Status status = ReadSecretAt(place, path, FileKind::kSecret, 100).status();
  EXPECT_EQ(status.message(), "the file cannot be read: Too many levels of symbolic links");
}

TEST_F(ReadSecretFileTest, AFolderThatIsExchangedAfterTheCheckIsNotEntered) {
  std::filesystem::create_directory(folder_ + "/ours");
  std::filesystem::create_directory(folder_ + "/theirs");
  Write("ours/token", "ours", 0600);
  Write("theirs/token", "theirs", 0600);
  Place place;
  ASSERT_EQ(FindPlace(folder_ + "/ours/token", Links::kEverywhere, &place), 0);
  std::filesystem::rename(folder_ + "/ours", folder_ + "/away");
  std::filesystem::create_symlink("theirs", folder_ + "/ours");
  EXPECT_EQ(ReadSecretAt(place, "", FileKind::kSecret, 100)->text, "ours");
}

// As a kubelet makes it: root's links, of the file and of its folder.
TEST_F(ReadSecretFileTest, ASecretOfKubernetesIsRead) {
  std::filesystem::create_directory(folder_ + "/..2026_11");
  Write("..2026_11/token", "text", 0644);
  std::filesystem::create_symlink("..2026_11", folder_ + "/..data");
  std::filesystem::create_symlink("..data/token", folder_ + "/token");
  EXPECT_EQ(ReadSecretFile(folder_ + "/token", FileKind::kSecret, 100)->text, "text");
}

TEST_F(ReadSecretFileTest, ALinkOfAFolderIsForeignOnlyInAFolderOfOthers) {
  std::filesystem::create_directory(folder_ + "/known");
  Write("known/token", "text", 0600);
  const std::string link = folder_ + "/place";
  std::filesystem::create_symlink("known", link);
  if (lchown(link.c_str(), 104'243, -1) != 0) GTEST_SKIP() << "only root";
  EXPECT_THAT(ReadSecretFile(link + "/token", FileKind::kSecret, 100).status().message(),
              HasSubstr("a link that another user owns"));
  ASSERT_EQ(chown(folder_.c_str(), 104'243, -1), 0);
  EXPECT_TRUE(ReadSecretFile(link + "/token", FileKind::kSecret, 100).ok()) << "its owner decides anyway";
}

TEST_F(ReadSecretFileTest, PathsMeanWhatTheyMeanToTheKernel) {
  std::filesystem::create_directory(folder_ + "/deep");
  Write("deep/token", "text", 0600);
  std::filesystem::create_directory_symlink(folder_ + "/deep", folder_ + "/link");
  for (const char* path : {"/deep/token", "//link//token", "/link/../deep/./token", "/deep/../link/token"}) {
    EXPECT_EQ(ReadSecretFile(folder_ + path, FileKind::kSecret, 100)->text, "text") << path;
  }
  EXPECT_EQ(ReadSecretFile("/proc/self/root" + folder_ + "/link/token", FileKind::kSecret, 100)->text, "text");
  const OwnedFd fd(open((folder_ + "/deep/token").c_str(), O_RDONLY));
  EXPECT_EQ(ReadSecretFile(absl::StrCat("/proc/self/fd/", fd.get()), FileKind::kSecret, 100)->text, "text");
  std::filesystem::create_symlink("b", folder_ + "/a");
  std::filesystem::create_symlink("a", folder_ + "/b");
  const auto why_not = [](const std::string& path) {
    return std::string(ReadSecretFile(path, FileKind::kSecret, 100).status().message());
  };
  EXPECT_EQ(why_not(""), "the file cannot be read: No such file or directory");
  EXPECT_EQ(why_not(folder_ + "/none/token"), "the file cannot be read: No such file or directory");
  EXPECT_EQ(why_not(folder_ + "/deep/token/"), "the file cannot be read: Not a directory");
  EXPECT_EQ(why_not(folder_ + "/deep/token/more"), "the file cannot be read: Not a directory");
  EXPECT_EQ(why_not(folder_ + "/a"), "the file cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(why_not("/"), "it is not a regular file: name a file");
  EXPECT_EQ(why_not(folder_ + "/link/"), "it is not a regular file: name a file");
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
