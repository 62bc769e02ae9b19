// The job as metrics. tests/integration/test_http.py shows them to promtool.
#include "rendezvous/web/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster::rendezvous {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Text(const v1::JobView& view) {
  return MetricsText(view, "1.2.3", absl::UnixEpoch() + absl::Seconds(1000), absl::UnixEpoch() + absl::Seconds(7));
}

TEST(MetricsText, EachStateHasASeries) {
  v1::JobView view;
  view.set_state(v1::JobView::STATE_GATHERING);
  const std::string text = Text(view);
  EXPECT_THAT(text, HasSubstr("\nmuster_job_state{state=\"gathering\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmuster_job_state{state=\"running\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmuster_job_attention 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmuster_nodes{state=\"spare\"} 0\n"));
}

TEST(MetricsText, WorkersThatDoNotLiveAreCounted) {
  v1::JobView view;
  for (const int live : {8, 5}) {
    v1::NodeView* const node = view.add_nodes();
    node->set_part(v1::NodeView::PART_MEMBER);
    node->set_workers(8);
    node->set_live_workers(live);
  }
  view.add_nodes()->set_part(v1::NodeView::PART_SPARE);
  view.mutable_nodes(2)->set_workers(8);
  EXPECT_THAT(Text(view), HasSubstr("\nmuster_workers{state=\"alive\"} 13\nmuster_workers{state=\"absent\"} 3\n"));
  EXPECT_THAT(Text(view), HasSubstr("\nmuster_nodes{state=\"member\"} 2\n"));
}

TEST(MetricsText, WhatIsNotKnownHasNoSeries) {
  v1::JobView view;
  EXPECT_THAT(Text(view), Not(HasSubstr("muster_step")));
  EXPECT_THAT(Text(view), Not(HasSubstr("sign_of_life")));
  v1::Progress* const progress = view.mutable_progress();
  progress->set_median_step(120);
  progress->set_slowest_step(118);
  progress->set_quiet_ms(500);
  progress->set_progress_file_ms(100'000);
  EXPECT_THAT(Text(view), HasSubstr("\nmuster_step{stat=\"median\"} 120\nmuster_step{stat=\"slowest\"} 118\n"));
  EXPECT_THAT(Text(view), HasSubstr("\nmuster_last_sign_of_life_timestamp_seconds 999.5\n"));
  EXPECT_THAT(Text(view), HasSubstr("\nmuster_progress_file_timestamp_seconds 900\n"));
}

// The ledger calls what came before the first step so only once there is one.
TEST(MetricsText, NoTimeGoesDownAtTheFirstStep) {
  v1::JobView view;
  view.mutable_time()->set_running_ms(300'000);
  EXPECT_THAT(Text(view), HasSubstr("{kind=\"running\"} 300\n"));
  view.mutable_time()->set_running_ms(0);
  view.mutable_time()->set_warming_up_ms(300'000);
  EXPECT_THAT(Text(view), HasSubstr("{kind=\"running\"} 300\n"));
}

TEST(MetricsText, ALimitOfZeroIsNoBudgetThatIsSpent) {
  v1::JobView view;
  view.mutable_left()->set_max_node_losses(10);
  EXPECT_THAT(Text(view), HasSubstr("{budget=\"max_node_losses\"} 0\n"));
  EXPECT_THAT(Text(view), Not(HasSubstr("max_restarts")));
}

TEST(MetricsText, ThePhaseUntilASignOfLifeIsThereOnceThereWasOne) {
  v1::JobView view;
  v1::PhaseTimes* const phase = view.mutable_recoveries()->add_phases();
  phase->set_phase("start");
  EXPECT_THAT(Text(view), Not(HasSubstr("start\"")));
  phase->set_count(1);
  EXPECT_THAT(Text(view), HasSubstr("muster_recovery_seconds_count{phase=\"start\"} 1\n"));
}

TEST(MetricsText, RecoveriesAreAHistogram) {
  v1::JobView view;
  v1::RecoveryTimes* const times = view.mutable_recoveries();
  times->add_bounds_ms(100);
  times->add_bounds_ms(1'000);
  v1::PhaseTimes* const phase = times->add_phases();
  phase->set_phase("drain");
  phase->add_within(1);
  phase->add_within(3);
  phase->set_count(4);
  phase->set_sum_ms(7'250);
  EXPECT_THAT(Text(view), HasSubstr("muster_recovery_seconds_bucket{phase=\"drain\",le=\"0.1\"} 1\n"
                                    "muster_recovery_seconds_bucket{phase=\"drain\",le=\"1\"} 3\n"
                                    "muster_recovery_seconds_bucket{phase=\"drain\",le=\"+Inf\"} 4\n"
                                    "muster_recovery_seconds_sum{phase=\"drain\"} 7.25\n"
                                    "muster_recovery_seconds_count{phase=\"drain\"} 4\n"));
}

TEST(MetricsText, NoTextBreaksOutOfItsLabel) {
  v1::JobView view;
  view.set_run_id("a\"} 1\nb\\");
  EXPECT_THAT(Text(view), HasSubstr("muster_job_info{run_id=\"a\\\"} 1\\nb\\\\\"} 1\n"));
}

// A large job has as many series as a small one.
TEST(MetricsText, ItsSizeDoesNotDependOnTheNodes) {
  v1::JobView view;
  view.add_nodes()->set_part(v1::NodeView::PART_MEMBER);
  const size_t one = Text(view).size();
  for (int i = 0; i < 999; ++i) view.add_nodes()->set_part(v1::NodeView::PART_MEMBER);
  EXPECT_LT(Text(view).size(), one + 10);
}

}  // namespace
}  // namespace muster::rendezvous
