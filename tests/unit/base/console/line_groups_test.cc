// Lines that several ranks write at nearly the same time are shown once.
#include "base/console/line_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/console/live_rows.h"

namespace muster {
namespace {

const BootTime kStart = absl::UnixEpoch() + absl::Hours(1);

class LineGroupsTest : public testing::Test {
 protected:
  // What is shown once this rank has written these lines, each behind the prefix "RANK: ".
  std::string Write(int rank, std::string_view lines) {
    const std::string prefix = absl::StrCat(rank, ": ");
    std::string pieces;
    while (!lines.empty()) {
      const size_t end = lines.find_first_of("\r\n");
      absl::StrAppend(&pieces, prefix, absl::string_view(lines.data(), end + 1));
      lines.remove_prefix(end + 1);
    }
    std::vector<ShownLine> shown;
    groups_.Take(now_, {rank, rank, prefix.size()}, pieces, &shown);
    return TextOf(shown);
  }
  std::string Pass(absl::Duration time) {
    now_ += time;
    std::vector<ShownLine> shown;
    groups_.OnTime(now_, &shown);
    return TextOf(shown);
  }
  static std::string TextOf(const std::vector<ShownLine>& shown) {
    std::string text;
    for (const ShownLine& line : shown) text += line.text;
    return text;
  }

  BootTime now_ = kStart;
  LineGroups groups_{4};
};

TEST_F(LineGroupsTest, ALineOfAllRanksIsShownAtOnceAndOnce) {
  EXPECT_EQ(Write(0, "warning\n"), "");
  EXPECT_EQ(Write(2, "warning\n"), "");
  EXPECT_EQ(Write(1, "warning\n"), "");
  EXPECT_EQ(Write(3, "warning\n"), "[0-3] warning\n");
  EXPECT_EQ(groups_.due(), absl::InfiniteFuture());
}

TEST_F(LineGroupsTest, ALineOfSomeRanksWaitsForTheOthersForASecond) {
  Write(0, "warning\n");
  Pass(absl::Milliseconds(400));
  Write(1, "warning\n");
  Write(3, "warning\n");
  EXPECT_EQ(groups_.due(), kStart + kGroupFor);
  EXPECT_EQ(Pass(absl::Milliseconds(599)), "");
  EXPECT_EQ(Pass(absl::Milliseconds(1)), "[0-1,3] warning\n");
  EXPECT_EQ(Write(2, "warning\n"), "") << "it is a new one";
  EXPECT_EQ(Pass(kGroupFor), "2: warning\n");
}

TEST_F(LineGroupsTest, PidsAddressesTimesAndTheOwnRankMayDiffer) {
  Write(0, "[rank0]:[W1129 07:56:40.123456789 P.cpp:12] at 0x7f12ab, pid 812\n2026-11-29T07:56:40Z (PID: 1) x\n");
  for (const int rank : {1, 2}) {
    Write(rank, absl::StrCat("[rank", rank, "]:[W1129 07:57:0", rank, ".5 P.cpp:12] at 0xffff", rank, ", pid ",
                             rank, "\n2026-11-30T00:00:0", rank, "Z (PID: 77", rank, ") x\n"));
  }
  EXPECT_EQ(Pass(kGroupFor),
            "[0-2] [rank0]:[W1129 07:56:40.123456789 P.cpp:12] at 0x7f12ab, pid 812\n"
            "[0-2] 2026-11-29T07:56:40Z (PID: 1) x\n");
}

TEST_F(LineGroupsTest, ADateByItselfIsWhatALineIsAbout) {
  Write(0, "2026-01-01 00:00:00 reads day 2026-11-28\n");
  Write(1, "2026-01-02 00:00:01 reads day 2026-11-29\n");
  EXPECT_EQ(Pass(kGroupFor),
            "0: 2026-01-01 00:00:00 reads day 2026-11-28\n1: 2026-01-02 00:00:01 reads day 2026-11-29\n");
}

TEST_F(LineGroupsTest, NoTextCanStandForWhatIsLeftOut) {
  Write(0, "at 0x7f12ab\n");
  Write(1, "at \x01?\n");
  EXPECT_EQ(Pass(kGroupFor), "0: at 0x7f12ab\n1: at \x01?\n");
}

TEST_F(LineGroupsTest, OtherNumbersMakeAnotherLine) {
  for (const char* text : {"loss 0.5", "step 12", "device 0", "rapid 3", "took 00:01", "[rank3] x", "0x12"}) {
    const std::string other = absl::StrCat(absl::string_view(text).substr(0, std::string(text).size() - 1), "9");
    EXPECT_EQ(Write(0, absl::StrCat(text, "\n")), "");
    EXPECT_EQ(Write(1, absl::StrCat(other, "\n")), "");
    EXPECT_EQ(Pass(kGroupFor), absl::StrCat("0: ", text, "\n1: ", other, "\n"));
  }
}

TEST_F(LineGroupsTest, EachRanksLinesKeepTheirOrder) {
  Write(0, "a\nb\n");
  Write(1, "b\na\n");
  EXPECT_EQ(Pass(kGroupFor), "0: a\n[0-1] b\n1: a\n");
  Write(0, "same\nsame\nsame\n");
  Write(1, "same\nsame\n");
  EXPECT_EQ(Pass(kGroupFor), "[0-1] same\n[0-1] same\n0: same\n");
}

TEST_F(LineGroupsTest, ACompleteLineDoesNotOvertakeAnEarlierOneThatWaits) {
  Write(0, "only mine\nall\n");
  Write(1, "all\n");
  Write(2, "all\n");
  EXPECT_EQ(Write(3, "all\n"), "");
  EXPECT_EQ(Pass(kGroupFor), "0: only mine\n[0-3] all\n");
}

TEST_F(LineGroupsTest, ATracebackIsNeitherGroupedNorHeldBack) {
  Write(0, "before\n");
  Write(1, "before\n");
  const std::string text = "Traceback (most recent call last):\n  File \"x\"\nValueError: no\n";
  EXPECT_EQ(Write(1, text),
            "[0-1] before\n1: Traceback (most recent call last):\n1:   File \"x\"\n1: ValueError: no\n");
  EXPECT_EQ(Write(0, "[rank0]: Traceback (most recent call last):\n"),
            "0: [rank0]: Traceback (most recent call last):\n");
  Pass(kTracebackFor);
  EXPECT_EQ(Write(1, "goes on\n"), "") << "as other lines do, after a second";
}

TEST_F(LineGroupsTest, TheLastLinesOfARankThatEndsAreShownAtOnce) {
  Write(0, "a\n");
  Write(1, "a\nlast words\n");
  Write(0, "b\n");
  std::vector<ShownLine> shown;
  groups_.ShowThoseOf(1, &shown);
  EXPECT_EQ(TextOf(shown), "[0-1] a\n1: last words\n");
  groups_.ShowThoseOf(3, &shown);
  EXPECT_EQ(shown.size(), 2u) << "it has written nothing";
  EXPECT_EQ(Pass(kGroupFor), "0: b\n");
}

TEST_F(LineGroupsTest, OurOwnLinesAreShownAtOnceBehindWhatWaits) {
  Write(0, "a\n");
  std::vector<ShownLine> shown;
  groups_.Take(now_, {.source = 9}, "muster: rank 0 exited\n", &shown);
  EXPECT_EQ(TextOf(shown), "0: a\nmuster: rank 0 exited\n");
}

TEST_F(LineGroupsTest, ProgressBarsAndPartsOfLinesPass) {
  EXPECT_EQ(Write(0, "50%\r"), "0: 50%\r");
  EXPECT_EQ(Write(0, "100%\n"), "0: 100%\n");
  EXPECT_EQ(Write(0, "name? [...]\n"), "0: name? [...]\n");
  EXPECT_EQ(Write(0, "[...] rest\n"), "0: [...] rest\n");
  EXPECT_EQ(Write(0, "a line\n"), "");
  std::vector<ShownLine> shown;
  groups_.Take(now_, {1, 1, 3}, "1: a line\r\n", &shown);
  EXPECT_TRUE(shown.empty()) << "a line, whose ending is that of Windows";
}

TEST_F(LineGroupsTest, ALineThatHasWaitedErasesNoProgressBar) {
  Write(0, "begins\n");
  LiveRows rows;
  std::string text;
  rows.Take(0, "0: 0%\r", &text);
  std::vector<ShownLine> shown;
  groups_.OnTime(absl::InfiniteFuture(), &shown);
  ASSERT_EQ(shown.size(), 1u);
  rows.Take(shown[0].source, shown[0].text, &text);
  rows.Draw(80, 24, &text);
  EXPECT_TRUE(text.ends_with("0: 0%\r")) << text;
}

TEST_F(LineGroupsTest, WhatWaitsIsBounded) {
  const std::string line(1023, 'x');
  std::string shown;
  for (size_t i = 0; i < kMaxWaitingBytes / 1024 + 10; ++i) shown += Write(0, absl::StrCat(i % 10, line, "\n"));
  EXPECT_GE(shown.size(), size_t{8} * 1024);
  EXPECT_TRUE(shown.starts_with("0: 0x"));
}

TEST_F(LineGroupsTest, ThousandsOfLinesOfAllRanksNeedLittleMemory) {
  std::string shown;
  for (int i = 0; i < 5000; ++i) {
    for (int rank = 0; rank < 4; ++rank) shown += Write(rank, absl::StrCat("step ", i, "\n"));
  }
  EXPECT_TRUE(shown.ends_with("[0-3] step 4999\n"));
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 5000);
}

}  // namespace
}  // namespace muster
