// What is seen of a job on a terminal, at several sizes, and what keys do.
#include "cli/watch/watch_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/unit/cli/status/members.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::JobView Job(int nodes) {
  v1::JobView view;
  view.set_run_id("4711");
  view.set_state(v1::JobView::STATE_RUNNING);
  view.mutable_round()->set_number(3);
  view.mutable_progress();
  view.mutable_round()->set_node_count(nodes);
  view.mutable_round()->set_world_size(8 * nodes);
  view.mutable_round()->set_age_ms(60'000);
  for (int rank = 0; rank < nodes; ++rank) {
    AddMember(rank, absl::StrFormat("gpu-%04d", rank), &view);
  }
  return view;
}

void Disconnect(int rank, v1::JobView* view) {
  view->mutable_nodes(rank)->set_connected(false);
  view->mutable_nodes(rank)->set_is_odd(true);
  view->add_odd(absl::StrCat("node ", rank, ": no connection for 9s"));
}

std::string TextOf(const Row& row) {
  return absl::StrJoin(row, "", [](std::string* out, const Span& span) { absl::StrAppend(out, span.text); });
}

class WatchScreenTest : public ::testing::Test {
 protected:
  std::vector<std::string> Seen(absl::Duration old = absl::ZeroDuration()) {
    std::vector<std::string> lines;
    for (const Row& row : screen_.Rows(size_, old)) lines.push_back(TextOf(row));
    EXPECT_LE(static_cast<int>(lines.size()), size_.lines);
    return lines;
  }
  std::string All() { return absl::StrJoin(Seen(), "\n"); }
  WatchScreen::Wish Type(std::string_view bytes) {
    WatchScreen::Wish wish = WatchScreen::Wish::kNothing;
    for (const KeyPress& press : KeysIn(bytes)) wish = screen_.OnKey(press, size_);
    return wish;
  }
  // The line above the last one is about the chosen node.
  std::string Chosen() {
    const std::vector<std::string> lines = Seen();
    return lines[lines.size() - 2];
  }

  Size size_ = {80, 24};
  WatchScreen screen_;
};

TEST_F(WatchScreenTest, FewNodesHaveALineEach) {
  v1::JobView view = Job(3);
  Disconnect(1, &view);
  screen_.Show(view);
  const std::vector<std::string> lines = Seen();
  EXPECT_EQ(lines.size(), 24u);
  EXPECT_THAT(lines[0], StartsWith("ATTENTION: job 4711 runs: 24 workers on 3 nodes, round 3 for 1m"));
  EXPECT_THAT(lines[1], StartsWith("progress   "));
  EXPECT_EQ(lines[2], "  ! node 1: no connection for 9s");
  EXPECT_THAT(lines[3], StartsWith("r    0 gpu-0000 ranks 0-7  running, heard 1s ago, 8 workers alive"));
  EXPECT_THAT(lines[4], StartsWith("C    1 gpu-0001 "));
  EXPECT_EQ(lines[21], "C no connection: 1   r runs: 2   ");
}

TEST_F(WatchScreenTest, AThousandNodesFitOnASmallTerminal) {
  v1::JobView view = Job(1'000);
  Disconnect(700, &view);
  view.mutable_nodes(3)->set_phase(v1::PHASE_STARTING);
  screen_.Show(view);
  const std::vector<std::string> lines = Seen();
  EXPECT_THAT(lines[3], StartsWith("    0  rrrsrrrr"));
  EXPECT_EQ(lines[3].size(), 80u);
  EXPECT_THAT(lines[12], StartsWith("  657  "));
  EXPECT_EQ(lines[12][7 + 43], 'C');
  EXPECT_THAT(All(), HasSubstr("\n  949  "));
  EXPECT_THAT(All(), HasSubstr("C no connection: 1   r runs: 998   s starts: 1   "));
  Type("n");
  EXPECT_THAT(Chosen(), HasSubstr("gpu-0700"));
}

TEST_F(WatchScreenTest, EvenTenThousandNodesShowTheChosenOne) {
  screen_.Show(Job(10'000));
  for (int pages = 0; pages < 20; ++pages) Type("\x1b[6~");
  EXPECT_THAT(Chosen(), HasSubstr("gpu-9999"));
  EXPECT_THAT(All(), HasSubstr("\n 9928  "));
}

TEST_F(WatchScreenTest, ALateNodeIsToldFromOneThatIsWell) {
  v1::JobView view = Job(2);
  view.mutable_nodes(0)->set_is_odd(true);
  screen_.Show(view);
  EXPECT_THAT(All(), HasSubstr("\nL    0 gpu-0000"));
}

TEST_F(WatchScreenTest, ArrowsChooseANode) {
  screen_.Show(Job(1'000));
  EXPECT_THAT(Chosen(), HasSubstr("gpu-0000"));
  Type("\x1b[A\x1b[D");
  EXPECT_THAT(Chosen(), HasSubstr("gpu-0000"));
  Type("\x1b[B\x1b[C\x1b[C");
  EXPECT_THAT(Chosen(), HasSubstr("gpu-0075"));
  screen_.Show(Job(10));
  EXPECT_THAT(Chosen(), HasSubstr("gpu-0009")) << "the job has fewer nodes now";
}

TEST_F(WatchScreenTest, AFilterLeavesNodesOut) {
  screen_.Show(Job(100));
  EXPECT_EQ(Type("/09q"), WatchScreen::Wish::kNothing) << "a letter of the filter, not the end";
  Type("\x7f");
  EXPECT_THAT(All(), HasSubstr("gpu-0009"));
  EXPECT_THAT(All(), HasSubstr("gpu-0090"));
  EXPECT_THAT(All(), Not(HasSubstr("gpu-0008")));
  Type("\r");
  EXPECT_THAT(All(), HasSubstr("nodes with 09"));
  Type("\x1b");
  EXPECT_THAT(Seen()[2], StartsWith("    0  rrr"));
}

TEST_F(WatchScreenTest, StacksAreAskedForAndShown) {
  screen_.Show(Job(3));
  EXPECT_EQ(Type("s"), WatchScreen::Wish::kStacks);
  EXPECT_THAT(All(), HasSubstr("asking all nodes where their workers stand"));
  screen_.ShowStacks("suspect: rank 3\nrank 3: at data.py:41\n");
  EXPECT_THAT(All(), HasSubstr("\nsuspect: rank 3\nrank 3: at data.py:41\n"));
  Type("\x1b[B");
  EXPECT_THAT(All(), Not(HasSubstr("suspect")));
  Type("\x1b");
  EXPECT_THAT(All(), HasSubstr("gpu-0002"));
}

TEST_F(WatchScreenTest, TheRoundsThatEndedAreShown) {
  v1::JobView view = Job(3);
  v1::EndedRound* const round = view.add_ended();
  round->set_number(2);
  round->set_cause("rank 3 exited with code 1");
  screen_.Show(view);
  Type("l");
  EXPECT_THAT(All(), HasSubstr("round 2, 0s ago: ran: rank 3 exited with code 1"));
  Type("l");
  EXPECT_THAT(All(), HasSubstr("gpu-0002"));
}

TEST_F(WatchScreenTest, AnOldAnswerIsNotTakenForTheStateOfNow) {
  EXPECT_THAT(Seen()[0], "asking the job ...");
  screen_.ShowProblem("no job is here");
  EXPECT_EQ(Seen()[0], "  ! no job is here");
  screen_.Show(Job(3));
  EXPECT_THAT(All(), Not(HasSubstr("no job")));
  screen_.ShowProblem("the coordinator does not answer");
  EXPECT_EQ(Seen(absl::Seconds(12))[1], "  ! this is 12s old: the coordinator does not answer");
}

TEST_F(WatchScreenTest, TheEndOfTheJobTakesThePlaceOfItsState) {
  screen_.Show(Job(2));
  v1::JobEnd end;
  end.set_exit_code(3);
  end.set_reason("muster stop by root@gpu-1");
  screen_.ShowProblem("no job is here");
  screen_.ShowEnd(end);
  const std::vector<std::string> lines = Seen();
  EXPECT_EQ(lines[0], "ATTENTION: the job has ended with exit code 3: muster stop by root@gpu-1");
  EXPECT_EQ(lines[1], "the last that it said:");
  EXPECT_THAT(lines[3], StartsWith("r    0 gpu-0000"));
}

TEST_F(WatchScreenTest, MissingNodesAreNamed) {
  v1::JobView view = Job(1);
  view.set_state(v1::JobView::STATE_GATHERING);
  view.add_missing("node 1 (10.0.0.2:2222)");
  screen_.Show(view);
  EXPECT_EQ(Seen()[1], "missing    node 1 (10.0.0.2:2222)");
}

TEST_F(WatchScreenTest, KeysThatEndIt) {
  for (const char* key : {"q", "\x03", "\x04"}) EXPECT_EQ(Type(key), WatchScreen::Wish::kQuit);
  EXPECT_EQ(Type("/\x03"), WatchScreen::Wish::kQuit);
}

TEST_F(WatchScreenTest, ATinyTerminalShowsWhatFits) {
  screen_.Show(Job(1'000));
  for (const Size size : {Size{1, 1}, Size{10, 3}, Size{20, 5}}) {
    const std::string frame = Frame(screen_.Rows(size, {}), size, true);
    EXPECT_LT(std::count(frame.begin(), frame.end(), '\n'), size.lines);
  }
}

std::vector<Key> KindsOf(std::string_view bytes) {
  std::vector<Key> keys;
  for (const KeyPress& press : KeysIn(bytes)) keys.push_back(press.key);
  return keys;
}

TEST(Keys, AreReadFromTheirSequences) {
  EXPECT_THAT(KindsOf("\x1b[A\x1bOB\x1b[5~x"), ElementsAre(Key::kUp, Key::kDown, Key::kPageUp, Key::kText));
  EXPECT_THAT(KindsOf("\x1b"), ElementsAre(Key::kEscape));
  EXPECT_THAT(KindsOf("\x1b[1;5Zq"), ElementsAre(Key::kOther, Key::kText)) << "one that is not known is one key";
  EXPECT_THAT(KindsOf("\x1b["), ElementsAre(Key::kOther));
}

TEST(Frames, AreCutAndWithoutColourNothingIsLost) {
  const std::vector<Row> rows = {{{"r", Style::kGood}, {"\xc3\xa4\xc3\xb6\xc3\xbc"}}, {{"two"}}, {{"three"}}};
  EXPECT_EQ(Frame(rows, {3, 2}, true), "\x1b[H\x1b[32mr\x1b[0m\xc3\xa4>\x1b[K\r\ntwo\x1b[K\x1b[J");
  EXPECT_EQ(Frame(rows, {3, 2}, false), "\x1b[Hr\xc3\xa4>\x1b[K\r\ntwo\x1b[K\x1b[J");
}

}  // namespace
}  // namespace muster::cli
