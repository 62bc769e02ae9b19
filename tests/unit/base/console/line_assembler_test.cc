// Whole lines, never glued, split or lost.
#include "base/console/line_assembler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "absl/strings/str_join.h"

namespace muster {
namespace {

const BootTime kStart = FromBootNanos(1'000'000'000);

std::string Assemble(const std::vector<std::string>& chunks) {
  LineAssembler assembler("[0] ");
  std::string out;
  for (const std::string& chunk : chunks) assembler.Feed(kStart, chunk, &out);
  assembler.End(&out);
  return out;
}

TEST(LineAssemblerTest, ALineIsShownOnceItIsWhole) {
  LineAssembler assembler("[0] ");
  std::string out;
  assembler.Feed(kStart, "half", &out);
  EXPECT_EQ(out, "");
  assembler.Feed(kStart, " and half\nnext", &out);
  EXPECT_EQ(out, "[0] half and half\n");
}

TEST(LineAssemblerTest, ALineWithALostEndIsMarked) {
  LineAssembler assembler("[0] ");
  std::string out;
  assembler.Break(&out);
  EXPECT_EQ(out, "");
  assembler.Feed(kStart, "lo", &out);
  assembler.Break(&out);
  assembler.Feed(kStart, "next\n", &out);
  EXPECT_EQ(out, "[0] lo [...]\n[0] next\n");
}

TEST(LineAssemblerTest, AnUnfinishedLineIsShownMarkedAfterASecond) {
  LineAssembler assembler("[0] ");
  std::string out;
  EXPECT_EQ(assembler.due(), absl::InfiniteFuture());
  assembler.Feed(kStart, "(Pdb) ", &out);
  EXPECT_EQ(assembler.due(), kStart + kUnfinishedAfter);
  assembler.OnTime(kStart + kUnfinishedAfter - absl::Nanoseconds(1), &out);
  EXPECT_EQ(out, "");
  assembler.OnTime(kStart + kUnfinishedAfter, &out);
  EXPECT_EQ(out, "[0] (Pdb)  [...]\n");
  assembler.Feed(kStart + absl::Seconds(5), "rest\n", &out);
  EXPECT_EQ(out, "[0] (Pdb)  [...]\n[0] [...] rest\n");
}

TEST(LineAssemblerTest, TheNewlineOfALineAlreadyShownAddsNothing) {
  LineAssembler assembler("");
  std::string out;
  assembler.Feed(kStart, "x", &out);
  assembler.OnTime(kStart + kUnfinishedAfter, &out);
  assembler.Feed(kStart + kUnfinishedAfter, "\ny\n", &out);
  EXPECT_EQ(out, "x [...]\ny\n");
}

TEST(LineAssemblerTest, RedrawsPassAndCrLfIsOneEnding) {
  EXPECT_EQ(Assemble({"10%\r20%\r", "30%\r", "\n"}), "[0] 10%\r[0] 20%\r[0] 30%\r\n");
}

TEST(LineAssemblerTest, ABarBelowOthersRedraws) {
  const std::string bytes = "\n\r10%\033[A\n\r20%\033[A\n\r30%\033[A\r100%\nend\n";
  EXPECT_EQ(Assemble({bytes}), "[0] \n[0] 10%\r[0] 20%\r[0] 30%\r[0] 100%\n[0] end\n");
  EXPECT_EQ(Assemble({"\n\r10%\033[A"}), "[0] \n[0] 10%\n");
  LineAssembler bar("[0] ", std::make_shared<RedrawLimit>());
  std::string out;
  bar.Feed(kStart, bytes, &out);
  EXPECT_EQ(out, "[0] \n[0] 10%\n[0] 100%\n[0] end\n");
}

TEST(LineAssemblerTest, OffATerminalAStateIsShownEachTenSeconds) {
  auto limit = std::make_shared<RedrawLimit>();
  LineAssembler bar("[0] ", limit), other("[0] ", limit);
  std::string out;
  bar.Feed(kStart, "\r10%\r20%\r30%\r", &out);
  other.Feed(kStart, "x\ry\rz", &out);
  EXPECT_EQ(out, "[0] 10%\n");
  bar.OnTime(kStart + kStateAfter, &out);
  other.OnTime(kStart + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\n");
  EXPECT_EQ(bar.due(), kStart + kRedrawEvery);
  bar.OnTime(kStart + kRedrawEvery, &out);
  EXPECT_EQ(out, "[0] 10%\n[0] 30%\n");
  bar.Feed(kStart + kRedrawEvery, "40%\n", &out);
  bar.End(&out);
  other.End(&out);
  EXPECT_EQ(out, "[0] 10%\n[0] 30%\n[0] 40%\n[0] z\n");
}

TEST(LineAssemblerTest, AnOpenStateIsShownSoonWithoutAMark) {
  LineAssembler bar("[0] ");  // as tqdm writes: the carriage return comes first
  std::string out;
  bar.Feed(kStart, "\r10%", &out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(bar.due(), kStart + kStateAfter);
  bar.OnTime(kStart + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\r");
  bar.Feed(kStart + absl::Seconds(5), "\r20%", &out);
  bar.Feed(kStart + absl::Seconds(5), "\n", &out);
  EXPECT_EQ(out, "[0] 10%\r");
  bar.OnTime(kStart + absl::Seconds(5) + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\r[0] 20%\r");
  bar.OnTime(kStart + absl::Seconds(5) + kUnfinishedAfter, &out);  // nothing shows yet that the cursor returns
  EXPECT_EQ(out, "[0] 10%\r[0] 20%\r[0] 20%\n");
  EXPECT_EQ(bar.due(), absl::InfiniteFuture());
}

// As tqdm writes them. Nothing but the bars' last states becomes a line.
TEST(LineAssemblerTest, BarsBelowEachOtherAreOneStateOfSeveralRows) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\repoch 1\n\rstep 1\033[A", &out);
  EXPECT_EQ(out, "");
  bars.Feed(kStart, "\n\rstep 2\033[A\n", &out);
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 1\r[0] epoch 1\v[0] step 2\r");
  out.clear();
  bars.Feed(kStart, "\rstep 3\033[A\repoch 2\n\r      \033[A\r", &out);  // the inner one is cleared
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 3\r");
  out.clear();
  bars.Feed(kStart, "epoch 3\nthe end\n", &out);
  EXPECT_EQ(out, "[0] epoch 2\r[0] epoch 3\n[0] the end\n");
  EXPECT_EQ(bars.due(), absl::InfiniteFuture());
}

TEST(LineAssemblerTest, AFinishedInnerBarIsALineAboveTheOuter) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\repoch 1\n\rstep 9\033[A\rstep 9\n\repoch 2\n\rstep 1\033[A\r\r", &out);
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 9\r[0] step 9\n[0] epoch 2\v[0] step 1\r");
}

// tqdm.write() clears all bars, writes, and draws them again.
TEST(LineAssemblerTest, ALineBetweenBarsBelowEachOtherIsALine) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\rA\n\rB\033[A\r \r\n\r \r\033[Asaid\n\rA\n\rB\033[A\r\r", &out);
  EXPECT_TRUE(out.ends_with("[0] said\n[0] A\v[0] B\r")) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
}

TEST(LineAssemblerTest, OffATerminalStackedBarsAreShownTogether) {
  auto limit = std::make_shared<RedrawLimit>();
  LineAssembler bars("[0] ", limit);
  std::string out;
  for (const char step : {'1', '2', '3'}) {
    bars.Feed(kStart, std::string("\rA\n\rB") + step + "\033[A\r", &out);
  }
  EXPECT_EQ(out, "[0] A\n[0] B1\n");
  bars.OnTime(kStart + kRedrawEvery, &out);
  EXPECT_EQ(out, "[0] A\n[0] B1\n[0] B3\n");  // A has not changed
  bars.End(&out);
  EXPECT_EQ(out, "[0] A\n[0] B1\n[0] B3\n");
}

TEST(LineAssemblerTest, ANewlineAfterAShownStateLeavesItAsTheLine) {
  LineAssembler bar("[0] ");
  std::string out;
  bar.Feed(kStart, "99%\r", &out);
  bar.OnTime(kStart + kStateAfter, &out);
  bar.Feed(kStart + absl::Seconds(1), "\nnext\n", &out);
  EXPECT_EQ(out, "[0] 99%\r[0] 99%\n[0] next\n");
}

TEST(LineAssemblerTest, AnEndlessLineIsShownInParts) {
  const std::string out = Assemble({std::string(kMaxLineBytes + 10, 'x') + "\n"});
  EXPECT_EQ(out.size(), kMaxLineBytes + 10 + 2 * 4 + kUnfinishedMark.size() + kContinuedMark.size() + 2);
}

TEST(LineAssemblerTest, OutputDoesNotDependOnHowBytesAreCut) {
  EXPECT_TRUE(rc::check([] {
    const auto tokens = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "a", "b", "\n", "\r", "\xc3", std::string(1, '\0'), " ", "\033[A", "\n\r", "\033"));
    const std::string text = absl::StrJoin(tokens, "");
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size();) {
      const size_t size = *rc::gen::inRange<size_t>(1, 6);
      chunks.push_back(text.substr(at, size));
      at += size;
    }
    RC_ASSERT(Assemble(chunks) == Assemble({text}));
  }));
}

// A deadline that stays in the past would make the writer's thread spin.
TEST(LineAssemblerTest, DeadlinesAreMet) {
  EXPECT_TRUE(rc::check([](bool passes) {
    const auto tokens = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("a", "\n", "\r", " ", "\033[A", "\n\ra\033[A"));
    LineAssembler assembler("", passes ? nullptr : std::make_shared<RedrawLimit>());
    std::string out;
    BootTime now = kStart;
    for (const std::string& token : tokens) {
      assembler.Feed(now, token, &out);
      now += absl::Milliseconds(*rc::gen::inRange(0, 2000));
      assembler.OnTime(now, &out);
      RC_ASSERT(assembler.due() > now);
    }
    while (assembler.due() < absl::InfiniteFuture()) {
      now = assembler.due();
      assembler.OnTime(now, &out);
      RC_ASSERT(assembler.due() > now);
    }
  }));
}

TEST(LineAssemblerTest, NothingIsLostAndEveryLineHasItsPrefix) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& raw) {
    std::string text, wanted;
    for (std::string line : raw) {
      for (char& c : line) c = c == '\n' || c == '\r' ? '.' : c;
      text += line + "\n";
      wanted += "[0] " + line + "\n";
    }
    RC_ASSERT(Assemble({text}) == wanted);
  }));
}

TEST(LineAssemblerTest, APrefixNamesItsRanks) {
  EXPECT_EQ(
      ExpandPrefix("[${node_rank}:${local_rank} ${rank}] $x ${", {.local_rank = 1, .rank = 5, .node_rank = 2}),
      "[2:1 5] $x ${");
  const PrefixFields fields = {"trainer", 0, 3, 0, "host9"};
  EXPECT_EQ(ExpandPrefix("[$role_name$local_rank]$$${hostname}$rankly ${rank", fields),
            "[trainer0]$host9$rankly ${rank");
}

}  // namespace
}  // namespace muster
