// Where each worker's output goes.
#include "agent/host/core/output_plan.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

TEST(OutputPlan, WithoutOptionsTheConsoleIsInherited) {
  EXPECT_EQ(SinkOf(OutputPlan(), 0, Streams::kOut, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(OutputPlan(), 5, Streams::kErr, false), Sink::kInherit);
}

TEST(OutputPlan, ARedirectedStreamGoesToAFileOnly) {
  OutputPlan plan;
  plan.redirects = {Streams::kOut, Streams::kNone};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kFile);
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 2, Streams::kOut, true), Sink::kInherit) << "there is no option for this rank";
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, false), Sink::kInherit) << "without files all goes to the console";
}

TEST(OutputPlan, ATeedStreamIsShownToo) {
  OutputPlan plan;
  plan.tees = {Streams::kErr};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, true), Sink::kShownFile);
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kErr, true), Sink::kInherit) << "there is no option for this rank";
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, false), Sink::kPipe) << "its lines still get a prefix";
}

TEST(OutputPlan, ARankThatIsNotShownWritesToItsFileOrNowhere) {
  OutputPlan plan;
  plan.shown = {true, false};
  plan.tees = {Streams::kBoth, Streams::kBoth, Streams::kBoth};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kShownFile);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, true), Sink::kFile);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, false), Sink::kNull);
  EXPECT_EQ(SinkOf(plan, 2, Streams::kOut, true), Sink::kFile) << "not in the list of shown ranks";
  plan.tees.clear();
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, true), Sink::kInherit);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, true), Sink::kNull);
}

TEST(OutputPlan, AWatchedStreamPassesThroughAsItIs) {
  OutputPlan plan;
  plan.piped = Streams::kErr;
  EXPECT_EQ(SinkOf(plan, 0, Streams::kErr, false), Sink::kPipe);
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, false), Sink::kInherit);
  EXPECT_FALSE(HasPrefix(plan, 0, Streams::kErr));
  plan.tees = {Streams::kErr};
  EXPECT_TRUE(HasPrefix(plan, 0, Streams::kErr));
  EXPECT_FALSE(HasPrefix(plan, 0, Streams::kOut));
  EXPECT_FALSE(HasPrefix(plan, 1, Streams::kErr));
  plan.prefix_all = true;
  EXPECT_TRUE(HasPrefix(plan, 1, Streams::kOut));
}

TEST(OutputPlan, StreamsOfOneFileShareAPipeUnlessTheyAreChanged) {
  OutputPlan plan;
  plan.piped = Streams::kBoth;
  EXPECT_FALSE(IsMerged(plan, 0, Sink::kPipe, Sink::kPipe));
  plan.merged = true;
  EXPECT_TRUE(IsMerged(plan, 0, Sink::kPipe, Sink::kPipe));
  EXPECT_FALSE(IsMerged(plan, 0, Sink::kFile, Sink::kPipe));
  EXPECT_FALSE(IsMerged(plan, 0, Sink::kNull, Sink::kNull));
  plan.tees = {Streams::kErr};
  EXPECT_FALSE(IsMerged(plan, 0, Sink::kPipe, Sink::kPipe)) << "its lines get a prefix";
}

TEST(OutputPlan, APrefixForAllNeedsAPipe) {
  OutputPlan plan;
  plan.prefix_all = true;
  plan.shown = {true, false};
  EXPECT_EQ(SinkOf(plan, 0, Streams::kOut, false), Sink::kPipe);
  EXPECT_EQ(SinkOf(plan, 1, Streams::kOut, false), Sink::kNull);
}

}  // namespace
}  // namespace muster::host
