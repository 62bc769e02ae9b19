// What a coordinator's web server answers, to whom.
#include "rendezvous/web/web_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace muster::rendezvous {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::JobView Running() {
  v1::JobView view;
  view.set_run_id("job1");
  view.set_state(v1::JobView::STATE_RUNNING);
  return view;
}

class WebAnswersTest : public testing::Test {
 protected:
  WebReply Get(const std::string& path, const std::string& authorization = "", const std::string& host = "") {
    return AnswerTo(
        {.path = path, .host = host, .authorization = authorization}, access_,
        [this]() -> std::shared_ptr<const JobSeen> {
          ++looks_;
          if (!view_) return nullptr;
          return std::make_shared<const JobSeen>(JobSeen{*view_, absl::UnixEpoch(), absl::UnixEpoch()});
        });
  }

  WebAccess access_{.token = "", .version = "1.2.3"};
  std::optional<v1::JobView> view_ = Running();
  int looks_ = 0;
};

TEST_F(WebAnswersTest, WithoutATokenEverybodyReads) {
  EXPECT_EQ(nlohmann::json::parse(Get("/status.json").body)["run_id"], "job1");
  EXPECT_THAT(Get("/metrics").body, HasSubstr("muster_job_info{run_id=\"job1\"} 1\n"));
  EXPECT_EQ(Get("/metrics").type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(Get("/elsewhere").code, 404);
}

TEST_F(WebAnswersTest, WithOneOnlyItsHoldersReadTheJob) {
  access_.token = "a-token-of-more-than-22-characters";
  for (const char* path : {"/status.json", "/metrics"}) {
    for (const char* wrong :
         {"", "Bearer", "Bearer ", "Bearer a-token", "Basic a-token-of-more-than-22-characters"}) {
      const WebReply reply = Get(path, wrong);
      EXPECT_EQ(reply.code, 401) << wrong;
      EXPECT_THAT(reply.body, Not(HasSubstr("job1")));
    }
    EXPECT_EQ(looks_, 0);
    EXPECT_EQ(Get(path, "Bearer " + access_.token).code, 200);
    EXPECT_EQ(Get(path, "bearer " + access_.token, "node0.example:9400").code, 200);
    looks_ = 0;
  }
  EXPECT_EQ(Get("/healthz").code, 200) << "probes have no header, and learn nothing";
  EXPECT_EQ(Get("/").code, 200) << "the page has nothing of the job before it asks";
  EXPECT_THAT(Get("/").body, Not(HasSubstr("job1")));
}

TEST_F(WebAnswersTest, WithoutATokenNoOtherNameMayLeadHere) {
  for (const char* host : {"127.0.0.1:9400", "[::1]:9400", "localhost", "LocalHost:9400", "10.0.0.3", ""})
    EXPECT_EQ(Get("/status.json", "", host).code, 200) << host;
  for (const char* host :
       {"attacker.example", "attacker.example:9400", "localhost.attacker.example", "7f.example"})
    EXPECT_EQ(Get("/status.json", "", host).code, 403) << host;
}

TEST_F(WebAnswersTest, ProbesTellWhetherItAnswersAndWhetherARoundRuns) {
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/readyz").code, 200);
  view_->set_state(v1::JobView::STATE_GATHERING);
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/readyz").code, 503);
  view_.reset();
  for (const char* path : {"/healthz", "/readyz", "/metrics", "/status.json"})
    EXPECT_EQ(Get(path).code, 503) << path;
}

}  // namespace
}  // namespace muster::rendezvous
