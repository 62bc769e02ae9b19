// Tests of a snapshot: its lines, its groups and its suspects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/stacks/faulthandler.h"
#include "base/stacks/places.h"
#include "base/stacks/processor_need.h"
#include "base/stacks/py_spy.h"
#include "base/stacks/snapshot_text.h"
#include "base/stacks/suspects.h"
#include "base/text/rank_ranges.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTorch[] = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";

RankSnapshot Standing(int rank, std::vector<Frame> frames) {
  RankSnapshot snapshot;
  snapshot.rank = rank;
  snapshot.state = 'S';
  snapshot.python.push_back({.name = "MainThread", .is_main = true, .frames = std::move(frames)});
  return snapshot;
}

RankSnapshot InAllReduce(int rank) {
  return Standing(rank, {{"all_reduce", kTorch, 2501},
                         {"_exception_logger.<locals>.wrapper", kTorch, 83},
                         {"step", "/job/train.py", 88},
                         {"<module>", "/job/train.py", 120}});
}

TEST(WhereIs, TheInnermostLineOfTheUsersOwnCodeCounts) {
  EXPECT_EQ(WhereIs(InAllReduce(0)), "in all_reduce, called at train.py:88 (step)");
  EXPECT_EQ(WhereIs(Standing(0, {{"wait", "/job/data.py", 41}, {"<module>", "/job/train.py", 3}})),
            "at data.py:41 (wait)");
}

TEST(WhereIs, AStackOfLibrariesAloneHasItsInnermostLine) {
  EXPECT_EQ(WhereIs(Standing(0, {{"_find_and_load", "<frozen importlib._bootstrap>", 1176},
                                 {"main", "/usr/lib/python3.11/runpy.py", 5}})),
            "at <frozen importlib._bootstrap>:1176 (_find_and_load)");
}

TEST(WhereIs, AStateThatNoWaitExplainsIsNamed) {
  RankSnapshot snapshot = InAllReduce(0);
  snapshot.state = 'T';
  EXPECT_EQ(WhereIs(snapshot), "in all_reduce, called at train.py:88 (step); it is stopped");
}

TEST(WhereIs, WithoutAStackTheKernelsWordCounts) {
  RankSnapshot snapshot;
  snapshot.state = 'D';
  snapshot.waits_in = "nfs_wait_bit_killable";
  snapshot.missing = "py-spy is not installed";
  EXPECT_EQ(WhereIs(snapshot),
            "the kernel holds it, and no signal reaches it, in nfs_wait_bit_killable of the kernel (py-spy is not "
            "installed)");
}

// Without stacks: where each waits in the kernel, all else being the same.
std::vector<RankSnapshot> WaitingIn(const std::vector<std::string>& functions) {
  std::vector<RankSnapshot> ranks;
  for (const std::string& function : functions) {
    RankSnapshot& rank = ranks.emplace_back();
    rank.rank = static_cast<int>(ranks.size()) - 1;
    rank.state = 'S';
    rank.busy_percent = 0;
    rank.waits_in = function;
    rank.missing = "py-spy is not installed";
  }
  return ranks;
}

TEST(Suspects, WithoutStacksTheKernelsFunctionTellsApartAndIsAWeakSign) {
  const auto ranks = WaitingIn({"futex_do_wait", "futex_do_wait", "futex_do_wait", "hrtimer_nanosleep"});
  const Suspects suspects = FindSuspects(ranks);
  EXPECT_THAT(suspects.ranks, ElementsAre(3));
  EXPECT_TRUE(suspects.is_weak);
  EXPECT_THAT(SnapshotLines(ranks),
              ElementsAre("suspect: rank 3: it stands elsewhere than the other 3",
                          "rank 3: it waits, in hrtimer_nanosleep of the kernel (py-spy is not installed)",
                          "3 ranks (0-2): each waits, in futex_do_wait of the kernel (py-spy is not installed)"));
  EXPECT_TRUE(FindSuspects(WaitingIn({"futex_do_wait", "futex_do_wait"})).ranks.empty());
}

TEST(Suspects, StacksAreAStrongSign) {
  const Suspects suspects =
      FindSuspects({InAllReduce(0), InAllReduce(1), Standing(2, {{"wait", "/job/data.py", 41}})});
  EXPECT_THAT(suspects.ranks, ElementsAre(2));
  EXPECT_FALSE(suspects.is_weak);
}

TEST(WhereBesideState, TheStateIsNotNamedAgain) {
  RankSnapshot snapshot = InAllReduce(0);
  snapshot.state = 'T';
  snapshot.waits_in = "do_signal_stop";
  EXPECT_EQ(WhereBesideState(snapshot), ", in all_reduce, called at train.py:88 (step)");
  snapshot.python.clear();
  snapshot.missing = "py-spy is not installed";
  EXPECT_EQ(WhereBesideState(snapshot), ", in do_signal_stop of the kernel (py-spy is not installed)");
  snapshot.ended = true;
  EXPECT_EQ(WhereBesideState(snapshot), "");
}

TEST(ShowRanks, RangesAreJoined) {
  EXPECT_EQ(ShowRanks({}), "");
  EXPECT_EQ(ShowRanks({3}), "3");
  EXPECT_EQ(ShowRanks({7, 0, 2, 1, 1, 10, 9}), "0-2, 7, 9-10");
  std::vector<int> even;
  for (int i = 0; i < 40; i += 2) even.push_back(i);
  EXPECT_EQ(ShowRanks(even), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more");
}

TEST(SnapshotLines, TheRankThatDiffersComesFirst) {
  std::vector<RankSnapshot> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.push_back(rank == 5 ? Standing(5, {{"load", "/job/data.py", 41}}) : InAllReduce(rank));
  }
  EXPECT_THAT(
      SnapshotLines(ranks),
      ElementsAre("suspect: rank 5: it stands elsewhere than the other 7", "rank 5: at data.py:41 (load)",
                  "    load (/job/data.py:41)", "7 ranks (0-4, 6-7): in all_reduce, called at train.py:88 (step)",
                  absl::StrCat("    all_reduce (", kTorch, ":2501)"),
                  absl::StrCat("    _exception_logger.<locals>.wrapper (", kTorch, ":83)"),
                  "    step (/job/train.py:88)", "    <module> (/job/train.py:120)"));
}

TEST(SnapshotLines, RanksThatHaveNotComeAreNamedIfOthersHave) {
  std::vector<RankSnapshot> ranks = {InAllReduce(0), InAllReduce(1), InAllReduce(2)};
  ranks[1].silent_so_far = true;
  EXPECT_EQ(SnapshotLines(ranks).front(), "rank 1 has shown no sign of life in this round; others have");
  ranks[2].silent_so_far = true;
  EXPECT_EQ(SnapshotLines(ranks).front(), "ranks 1-2 have shown no sign of life in this round; others have");
  ranks[0].silent_so_far = true;
  EXPECT_THAT(SnapshotLines(ranks).front(), testing::Not(testing::HasSubstr("no sign of life")));
}

TEST(SnapshotLines, OfGroupsOfOneSizeTheSuspectsComesFirst) {
  RankSnapshot stopped = Standing(1, {{"load", "/job/data.py", 41}});
  stopped.state = 'T';
  const std::vector<std::string> lines = SnapshotLines({InAllReduce(0), stopped});
  EXPECT_EQ(lines.at(0), "suspect: rank 1: it is stopped");
  EXPECT_EQ(lines.at(1), "rank 1: at data.py:41 (load); it is stopped");
}

TEST(SnapshotLines, AThousandPlacesStayWithinTheLimit) {
  std::vector<RankSnapshot> ranks;
  for (int rank = 0; rank < 1000; ++rank) ranks.push_back(Standing(rank, {{"f", "/job/a.py", rank + 1}}));
  const std::vector<std::string> lines = SnapshotLines(ranks);
  EXPECT_EQ(lines.size(), kMaxSnapshotLines);
  EXPECT_EQ(lines.back(), "and 961 more places");
}

TEST(SnapshotLines, ADeepStackLeavesTheNextGroupItsPart) {
  std::vector<Frame> deep(kMaxFrames, Frame{"f", "/job/deep.py", 1});
  const std::vector<std::string> lines = SnapshotLines({Standing(0, deep), InAllReduce(1), InAllReduce(2)});
  EXPECT_LE(lines.size(), kMaxSnapshotLines);
  EXPECT_THAT(lines.back(), HasSubstr("<module>"));
}

std::vector<RankSnapshot> Eight() {
  std::vector<RankSnapshot> ranks;
  for (int rank = 0; rank < 8; ++rank) ranks.push_back(InAllReduce(rank));
  return ranks;
}

TEST(Suspects, OneThatDiffersIsTheReason) {
  std::vector<RankSnapshot> ranks = Eight();
  EXPECT_TRUE(FindSuspects(ranks).ranks.empty()) << "all wait for something else";
  ranks[6] = Standing(6, {{"load", "/job/data.py", 41}});
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(6));
}

// Waiters of NCCL spin, and the kernel shows one moment of each.
TEST(Suspects, WhoRunsAtTheMomentIsNoneForThat) {
  std::vector<RankSnapshot> ranks = Eight();
  ranks[2].state = 'R';
  EXPECT_TRUE(FindSuspects(ranks).ranks.empty());
  ranks[5] = Standing(5, {{"load", "/job/data.py", 41}});
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(5));
}

TEST(Suspects, WithoutStacksWhoComputesOrWaitsAloneIsOne) {
  std::vector<RankSnapshot> ranks(4);
  for (int i = 0; i < 4; ++i) {
    ranks[static_cast<size_t>(i)].rank = i;
    ranks[static_cast<size_t>(i)].state = i % 2 == 0 ? 'R' : 'S';
    ranks[static_cast<size_t>(i)].waits_in = i % 2 == 0 ? "" : "futex_wait";
  }
  EXPECT_TRUE(FindSuspects(ranks).ranks.empty()) << "one moment says nothing";
  for (RankSnapshot& rank : ranks) rank.busy_percent = 100;
  ranks[1].busy_percent = 3;
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(1));
  EXPECT_THAT(SnapshotLines(ranks),
              ::testing::Contains(HasSubstr("rank 1: it waits, in futex_wait of the kernel")));
}

TEST(Suspects, TwoThatWaitForEachOtherAreBoth) {
  std::vector<RankSnapshot> ranks = Eight();
  ranks[2] = Standing(2, {{"recv", kTorch, 9}, {"step", "/job/train.py", 90}});
  ranks[5] = Standing(5, {{"send", kTorch, 8}, {"step", "/job/train.py", 91}});
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(2, 5));
  EXPECT_EQ(FindSuspects(ranks).why, "they stand elsewhere than the other 6");
}

// As while all import.
TEST(Suspects, RanksThatAreScatteredAccuseNobody) {
  std::vector<RankSnapshot> ranks;
  for (int rank = 0; rank < 5; ++rank)
    ranks.push_back(Standing(rank, {{"load", "/job/model.py", std::max(rank, 1)}}));
  EXPECT_TRUE(FindSuspects(ranks).ranks.empty());
  EXPECT_EQ(FindSuspects(ranks).why, "the ranks stand at 4 places, none of which most share");
}

TEST(Suspects, OfScatteredRanksThoseAreThatOthersWaitFor) {
  std::vector<RankSnapshot> ranks = {InAllReduce(0), InAllReduce(1)};
  for (int rank = 2; rank < 5; ++rank) ranks.push_back(Standing(rank, {{"load", "/job/data.py", rank}}));
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(2, 3, 4));
  EXPECT_TRUE(FindSuspects(ranks).is_weak);
}

TEST(Suspects, HalfAndHalfAccuseNobodyIfAllWaitInCollectives) {
  const RankSnapshot gathers = Standing(1, {{"all_gather", kTorch, 9}, {"step", "/job/train.py", 90}});
  const Suspects suspects = FindSuspects({InAllReduce(0), gathers});
  EXPECT_TRUE(suspects.ranks.empty());
  EXPECT_EQ(suspects.why, "the ranks stand at 2 places, as many at each");
  EXPECT_EQ(FindSuspects(Eight()).why, "no rank differs from the others");
}

TEST(Suspects, OneAloneHasNobodyToCompareWith) {
  EXPECT_EQ(FindSuspects({InAllReduce(0)}).why, "there is no other rank to compare with");
  EXPECT_EQ(FindSuspects({}).why, "there is no other rank to compare with");
}

const Frame kLoads{"load", "/job/data.py", 41};

TEST(Suspects, OfHalfAndHalfThoseAreThatWaitInNoCollective) {
  const Suspects one = FindSuspects({InAllReduce(0), Standing(1, {kLoads})});
  EXPECT_THAT(one.ranks, ElementsAre(1));
  EXPECT_EQ(one.why, "it is in no collective operation, while rank 0 waits in one");
  EXPECT_TRUE(one.is_weak) << "kernels of NCCL are waited for without a frame of torch";
  const Suspects two =
      FindSuspects({Standing(0, {kLoads}), InAllReduce(1), Standing(2, {kLoads}), InAllReduce(3)});
  EXPECT_THAT(two.ranks, ElementsAre(0, 2));
  EXPECT_EQ(two.why, "they are in no collective operation, while ranks 1, 3 wait in one");
}

// A framework calls all of it from one line of the user's.
TEST(Suspects, OfRanksThatACommonLineHasBroughtThereThoseAreThatWaitInNoCollective) {
  const Frame trains{"<module>", "/job/train.py", 10};
  const Frame inner{"train", "/opt/venv/lib/python3.11/site-packages/frame/trainer.py", 5};
  const Frame collates{"collate", "/opt/venv/lib/python3.11/site-packages/frame/data.py", 7};
  const Suspects suspects =
      FindSuspects({Standing(0, {{"barrier", kTorch, 9}, inner, trains}),
                    Standing(1, {{"barrier", kTorch, 9}, inner, trains}), Standing(2, {collates, inner, trains})});
  EXPECT_THAT(suspects.ranks, ElementsAre(2));
}

// Gradients are reduced by threads of C++ while the main thread waits in backward().
TEST(Suspects, WhoMayWaitForOthersInAnotherWayIsNone) {
  const RankSnapshot reduces =
      Standing(1, {{"_engine_run_backward", "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 869},
                   {"step", "/job/train.py", 87}});
  EXPECT_TRUE(FindSuspects({InAllReduce(0), reduces}).ranks.empty());
}

TEST(Suspects, OfHalfAndHalfNobodyIsIfSomeHaveNoStack) {
  RankSnapshot hidden = Standing(2, {});
  hidden.busy_percent = 0;
  const Suspects suspects = FindSuspects({InAllReduce(0), Standing(1, {kLoads}), hidden});
  EXPECT_TRUE(suspects.ranks.empty());
  EXPECT_EQ(suspects.why, "the ranks stand at 3 places, as many at each, as far as that is known");
}

TEST(Suspects, AFewThatAloneWaitInCollectivesAreAWeakSign) {
  const std::vector<RankSnapshot> ranks = {InAllReduce(0), Standing(1, {kLoads}), Standing(2, {kLoads})};
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(0));
  EXPECT_TRUE(FindSuspects(ranks).is_weak) << "the others may be what it waits for";
}

TEST(ProcessorNeed, IsWhatWasUsedAndWaitedForByAllProcesses) {
  const auto ms = [](int count) { return absl::Milliseconds(count); };
  EXPECT_EQ(ProcessorNeed({{7, {ms(1000), ms(0)}}, {8, {ms(0), ms(0)}}},
                          {{7, {ms(1150), ms(0)}}, {8, {ms(30), ms(0)}}}, ms(300)),
            60);
  EXPECT_EQ(ProcessorNeed({{7, {ms(1000), ms(500)}}}, {{7, {ms(1075), ms(725)}}}, ms(300)), 100)
      << "one that spins, beside others";
}

TEST(ProcessorNeed, AWaitCountsOnlyWithUseAndForNoLongerThanTheTimeBetween) {
  const auto ms = [](int count) { return absl::Milliseconds(count); };
  EXPECT_EQ(ProcessorNeed({{7, {ms(0), ms(0)}}}, {{7, {ms(1), ms(1000)}}}, ms(300)), 0) << "woken for a moment";
  EXPECT_EQ(ProcessorNeed({{7, {ms(0), ms(0)}}}, {{7, {ms(30), ms(1000)}}}, ms(300)), 100);
}

TEST(ProcessorNeed, WhatHasEndedOrBegunMeanwhileCountsForNothing) {
  const auto ms = [](int count) { return absl::Milliseconds(count); };
  EXPECT_EQ(ProcessorNeed({{7, {ms(5000), ms(5000)}}, {8, {ms(0), ms(0)}}},
                          {{8, {ms(150), ms(0)}}, {9, {ms(80), ms(80)}}}, ms(300)),
            50);
  EXPECT_EQ(ProcessorNeed({{7, {ms(50), ms(50)}}}, {{7, {ms(0), ms(0)}}}, ms(300)), 0) << "it is gone";
}

TEST(Suspects, WhoHasEndedOrIsStoppedOrHeldComesBeforeAnyPlace) {
  std::vector<RankSnapshot> ranks = Eight();
  ranks[0] = Standing(0, {{"load", "/job/data.py", 41}});
  ranks[1].state = 'D';
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(1));
  ranks[2].state = 'T';
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(2));
  ranks[3] = RankSnapshot();
  ranks[3].rank = 3;
  ranks[3].ended = true;
  EXPECT_THAT(FindSuspects(ranks).ranks, ElementsAre(3));
  EXPECT_EQ(FindSuspects(ranks).why, "it has ended");
}

TEST(Suspects, WhatIsTrueOfAllAccusesNobody) {
  std::vector<RankSnapshot> ranks = Eight();
  for (RankSnapshot& rank : ranks) rank.state = 'T';
  EXPECT_TRUE(FindSuspects(ranks).ranks.empty());
}

// A program chooses its own names.
TEST(SnapshotLines, NamesCannotEndALine) {
  RankSnapshot snapshot = Standing(0, {{"f\nmuster: error: all is lost", "/job/a\x1b[2J.py", 1}});
  snapshot.program = "python\n";
  for (const std::string& line : SnapshotLines({snapshot})) {
    EXPECT_FALSE(absl::StrContains(line, "\n") || absl::StrContains(line, "\x1b")) << line;
  }
  EXPECT_THAT(SnapshotText({snapshot}), ::testing::Not(HasSubstr("\nmuster")));
}

TEST(PySpy, TheMainThreadComesFirst) {
  const auto threads = ParsePySpy(R"([
    {"pid": 7, "thread_id": 1, "thread_name": "helper", "os_thread_id": 8, "active": false, "owns_gil": false,
     "frames": [{"name": "run", "filename": "/usr/lib/python3.11/threading.py", "line": 982}]},
    {"pid": 7, "thread_id": 2, "thread_name": null, "os_thread_id": 7, "active": true, "owns_gil": true,
     "frames": [{"name": "step", "filename": "/job/train.py", "line": 88, "locals": null}]}])",
                                  7);
  ASSERT_TRUE(threads.ok()) << threads.status();
  ASSERT_EQ(threads->size(), 2u);
  EXPECT_TRUE(threads->at(0).is_main);
  EXPECT_EQ(threads->at(0).frames.at(0).function, "step");
  EXPECT_EQ(threads->at(0).frames.at(0).line, 88);
  EXPECT_EQ(threads->at(1).name, "helper");
}

TEST(PySpy, WhatIsNoListOfThreadsIsRefused) {
  for (const char* text : {"", "{}", "[1]", "Error: Permission denied", "[{\"frames\": []}"}) {
    EXPECT_FALSE(ParsePySpy(text, 1).ok()) << text;
  }
  EXPECT_TRUE(ParsePySpy(R"([{"frames": "none"}, {"frames": [3]}, {}])", 1).ok()) << "threads without frames";
}

TEST(PySpy, ManyThreadsAndFramesAreCut) {
  std::string frames, threads;
  for (int i = 0; i < 200; ++i)
    absl::StrAppend(&frames, i > 0 ? "," : "", R"({"name": "f", "filename": "a", "line": 1})");
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&threads, i > 0 ? "," : "", R"({"os_thread_id": )", i, R"(, "frames": [)", frames, "]}");
  }
  const auto parsed = ParsePySpy(absl::StrCat("[", threads, "]"), 150);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->size(), kMaxPythonThreads);
  EXPECT_TRUE(parsed->at(0).is_main);
  EXPECT_EQ(parsed->at(0).frames.size(), kMaxFrames);
}

TEST(Faulthandler, ItsStackIsThatOfTheMainThread) {
  const auto threads = ParseFaulthandler(R"(Stack (most recent call first):
  Garbage-collecting
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/job/a "quoted", line 1 in b.py", line 7 in run
  File "/job/train.py", line ??? in <module>
)");
  ASSERT_TRUE(threads.ok()) << threads.status();
  ASSERT_EQ(threads->size(), 1u);
  EXPECT_TRUE(threads->at(0).is_main);
  const std::vector<Frame>& frames = threads->at(0).frames;
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].file, "/usr/lib/python3.11/threading.py");
  EXPECT_EQ(frames[0].line, 324);
  EXPECT_EQ(frames[0].function, "wait");
  EXPECT_EQ(frames[1].file, "/job/a \"quoted\", line 1 in b.py");
  EXPECT_EQ(frames[1].line, 7);
  EXPECT_EQ(frames[2].line, 0) << "not known";
}

TEST(Faulthandler, OfSeveralTextsTheLastCounts) {
  const auto threads = ParseFaulthandler(
      "  File \"half\", line 1 in x\nStack (most recent call first):\n  File \"a\", line 1 in f\n"
      "Stack (most recent call first):\n  File \"b\", line 2 in g\n");
  ASSERT_TRUE(threads.ok()) << threads.status();
  ASSERT_EQ(threads->at(0).frames.size(), 1u);
  EXPECT_EQ(threads->at(0).frames[0].file, "b");
}

TEST(Faulthandler, ATextWithoutAStackIsNone) {
  for (const char* text : {"", "garbage\n", "  File \"a\", line 1 in f\n"}) {
    EXPECT_FALSE(ParseFaulthandler(text).ok()) << text;
  }
}

TEST(Faulthandler, ManyFramesAreCut) {
  std::string text = "Stack (most recent call first):\n";
  for (int frame = 0; frame < 100; ++frame) absl::StrAppend(&text, "  File \"a\", line ", frame, " in f\n");
  const auto parsed = ParseFaulthandler(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->at(0).frames.size(), kMaxFrames);
  EXPECT_EQ(parsed->at(0).frames.back().line, kMaxFrames - 1) << "the innermost are kept";
}

}  // namespace
}  // namespace muster
