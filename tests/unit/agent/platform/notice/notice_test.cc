// Requests to metadata servers, and the effects of their answers.
#include "agent/platform/notice/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Milliseconds(1);

HttpAnswer Answer(int status, const std::string& body, const std::string& tag = "") {
  HttpAnswer answer;
  answer.status = status;
  answer.body = body;
  answer.headers["metadata-flavor"] = "Google";
  if (!tag.empty()) answer.headers["etag"] = tag;
  return answer;
}

int Warnings(const NoticeInquiry::Next& next) {
  int count = 0;
  for (const Note& note : next.remarks) count += note.severity == Severity::kWarning ? 1 : 0;
  return count;
}

class GceTest : public ::testing::Test {
 protected:
  GceTest() : inquiries_(InquiriesOf(v1::NoticeSource::GCE)) {
    preempted_ = inquiries_.at(0).get();
    maintenance_ = inquiries_.at(1).get();
  }
  std::vector<std::unique_ptr<NoticeInquiry>> inquiries_;
  NoticeInquiry* preempted_;
  NoticeInquiry* maintenance_;
};

TEST(InquiriesTest, SourcesWithoutAServerAskNothing) {
  EXPECT_TRUE(InquiriesOf(v1::NoticeSource::OFF).empty());
  EXPECT_TRUE(InquiriesOf(v1::NoticeSource::FILE).empty());
}

TEST_F(GceTest, AsksForTheValueThenForItsChange) {
  NoticeInquiry::Next next = preempted_->Begin();
  EXPECT_EQ(next.request.method, "GET");
  EXPECT_EQ(next.request.path, "/computeMetadata/v1/instance/preempted");
  const std::vector<std::pair<std::string, std::string>> flavor = {{"Metadata-Flavor", "Google"}};
  EXPECT_EQ(next.request.headers, flavor);
  EXPECT_EQ(next.request.limit, kMetadataLimit);
  next = preempted_->OnAnswer(Answer(200, "FALSE\n", "a1b2"), kSoon);
  EXPECT_EQ(next.pause, absl::ZeroDuration());
  EXPECT_EQ(next.request.path,
            "/computeMetadata/v1/instance/preempted?wait_for_change=true&timeout_sec=60&last_etag=a1b2");
  EXPECT_GT(next.request.limit, kGceWait) << "it answers when its own time limit ends";
  EXPECT_TRUE(next.remarks.empty());
  EXPECT_EQ(maintenance_->Begin().request.path, "/computeMetadata/v1/instance/maintenance-event");
}

TEST_F(GceTest, APreemptionIsANotice) {
  preempted_->Begin();
  EXPECT_EQ(preempted_->OnAnswer(Answer(200, "TRUE"), kSoon).notice,
            "preemption notice of gce: this instance is being preempted");
}

TEST_F(GceTest, MaintenanceIsANoticeIfItEndsTheInstance) {
  maintenance_->Begin();
  EXPECT_EQ(maintenance_->OnAnswer(Answer(200, "NONE", "1"), kSoon).notice, "");
  NoticeInquiry::Next next = maintenance_->OnAnswer(Answer(200, "MIGRATE_ON_HOST_MAINTENANCE", "2"), kGceWait);
  EXPECT_EQ(next.notice, "");
  EXPECT_THAT(next.remarks.at(0).text, HasSubstr("the job continues"));
  next = maintenance_->OnAnswer(Answer(200, "MIGRATE_ON_HOST_MAINTENANCE", "2"), kGceWait);
  EXPECT_TRUE(next.remarks.empty()) << "it was logged already";
  next = maintenance_->OnAnswer(Answer(200, "TERMINATE_ON_HOST_MAINTENANCE", "3"), kGceWait);
  EXPECT_EQ(next.notice, "preemption notice of gce: host maintenance is about to end this instance");
}

// The tag of an answer becomes part of the next request's path; unsafe or empty tags are left out.
TEST_F(GceTest, OnlySafeTagsAreSentBack) {
  preempted_->Begin();
  for (const char* tag : {"", "a&b=c", "a b", "a\r\nX: y"}) {
    EXPECT_EQ(preempted_->OnAnswer(Answer(200, "FALSE", tag), kGceWait).request.path,
              "/computeMetadata/v1/instance/preempted?wait_for_change=true&timeout_sec=60");
  }
}

TEST_F(GceTest, AnImpatientServerIsAskedWithPauses) {
  preempted_->Begin();
  preempted_->OnAnswer(Answer(200, "FALSE", "1"), kSoon);
  EXPECT_EQ(preempted_->OnAnswer(Answer(200, "FALSE", "1"), kSoon).pause, kLeastPause);
  EXPECT_EQ(preempted_->OnAnswer(Answer(200, "FALSE", "1"), kGceWait).pause, absl::ZeroDuration());
}

TEST_F(GceTest, ErrorsAreOneWarningWithBackoff) {
  preempted_->Begin();
  absl::Duration last = absl::ZeroDuration();
  int warnings = 0;
  for (int i = 0; i < 12; ++i) {
    const NoticeInquiry::Next next = preempted_->OnAnswer(absl::UnavailableError("cannot be reached"), kSoon);
    warnings += Warnings(next);
    EXPECT_GE(next.pause, std::max(last, kLeastPause));
    EXPECT_LE(next.pause, kMostPause);
    EXPECT_EQ(next.request.path, "/computeMetadata/v1/instance/preempted") << "the current value, not its change";
    last = next.pause;
  }
  EXPECT_EQ(last, kMostPause);
  EXPECT_EQ(warnings, 1);
  const NoticeInquiry::Next again = preempted_->OnAnswer(Answer(200, "FALSE", "1"), kSoon);
  EXPECT_EQ(again.remarks.at(0).severity, Severity::kInfo);
  const NoticeInquiry::Next next = preempted_->OnAnswer(Answer(503, ""), kSoon);
  EXPECT_EQ(Warnings(next), 0) << "the second time";
  EXPECT_EQ(next.pause, kLeastPause) << "it begins anew";
}

TEST_F(GceTest, ALastingOutageIsAnotherWarning) {
  preempted_->Begin();
  int aloud = 0;
  const auto count = [&](const NoticeInquiry::Next& next) {
    for (const Note& note : next.remarks) aloud += note.severity == Severity::kDebug ? 0 : 1;
  };
  for (int i = 0; i < 50; ++i) {
    count(preempted_->OnAnswer(Answer(503, ""), kSoon));
    count(preempted_->OnAnswer(Answer(200, "FALSE", "1"), kSoon));
  }
  EXPECT_EQ(aloud, 2) << "one line for the outage and one for its end";
  absl::Duration failing;
  while (aloud == 2 && failing < absl::Minutes(2)) {
    const NoticeInquiry::Next next = preempted_->OnAnswer(Answer(503, ""), kSoon);
    failing += next.pause;
    count(next);
  }
  EXPECT_LE(failing, absl::Minutes(1) + kMostPause);
  for (int i = 0; i < 50; ++i) count(preempted_->OnAnswer(Answer(503, ""), kSoon));
  count(preempted_->OnAnswer(Answer(200, "FALSE", "1"), kSoon));
  EXPECT_EQ(aloud, 4);
}

TEST_F(GceTest, StrangeAnswersAreNoNotice) {
  preempted_->Begin();
  HttpAnswer foreign = Answer(200, "TRUE");
  foreign.headers.clear();
  const HttpAnswer answers[] = {foreign,
                                Answer(404, "TRUE"),
                                Answer(500, "TRUE"),
                                Answer(200, ""),
                                Answer(200, "TRUE TRUE"),
                                Answer(200, "true"),
                                Answer(200, std::string(kMaxMetadataBytes, '\xff')),
                                Answer(200, std::string("TRUE\0", 5))};
  for (const HttpAnswer& answer : answers) {
    const NoticeInquiry::Next next = preempted_->OnAnswer(answer, kSoon);
    EXPECT_EQ(next.notice, "");
    EXPECT_GE(next.pause, kLeastPause);
    for (const Note& note : next.remarks) {
      EXPECT_LT(note.text.size(), 300u);
      for (const char c : note.text) EXPECT_TRUE(c >= ' ' && c <= '~') << note.text;
    }
  }
}

class AwsTest : public ::testing::Test {
 protected:
  AwsTest() : inquiries_(InquiriesOf(v1::NoticeSource::AWS)), aws_(inquiries_.at(0).get()) {
    next_ = aws_->Begin();
  }
  void Give(int status, const std::string& body) { next_ = aws_->OnAnswer(Answer(status, body), kSoon); }
  std::string Path() const { return next_.request.path; }

  static constexpr char kToken[] = "/latest/api/token";
  static constexpr char kAction[] = "/latest/meta-data/spot/instance-action";
  static constexpr char kRebalance[] = "/latest/meta-data/events/recommendations/rebalance";
  std::vector<std::unique_ptr<NoticeInquiry>> inquiries_;
  NoticeInquiry* aws_;
  NoticeInquiry::Next next_;
};

TEST_F(AwsTest, FetchesATokenAndAsksEveryFiveSeconds) {
  EXPECT_EQ(next_.request.method, "PUT");
  EXPECT_EQ(Path(), kToken);
  EXPECT_EQ(next_.request.headers.at(0).first, "X-aws-ec2-metadata-token-ttl-seconds");
  EXPECT_EQ(next_.request.headers.at(0).second, "21600");
  Give(200, "abc==");
  EXPECT_EQ(next_.request.method, "GET");
  EXPECT_EQ(Path(), kAction);
  const std::vector<std::pair<std::string, std::string>> token = {{"X-aws-ec2-metadata-token", "abc=="}};
  EXPECT_EQ(next_.request.headers, token);
  Give(404, "");
  EXPECT_EQ(Path(), kRebalance);
  Give(404, "");
  EXPECT_EQ(Path(), kAction);
  EXPECT_EQ(next_.pause, kAwsPeriod);
  Give(404, "");
  EXPECT_EQ(Path(), kAction) << "the recommendation is asked for more rarely";
  EXPECT_TRUE(next_.remarks.empty());
}

TEST_F(AwsTest, AnActionIsANotice) {
  Give(200, "abc");
  Give(200, R"({"action": "terminate", "time": "2026-11-21T16:00:00Z"})");
  EXPECT_EQ(next_.notice, "preemption notice of aws: terminate at 2026-11-21T16:00:00Z");
}

TEST_F(AwsTest, AnActionWithoutAValidTimeIsANotice) {
  Give(200, "abc");
  Give(200, R"({"action": "stop", "time": "\u001b[31m"})");
  EXPECT_EQ(next_.notice, "preemption notice of aws: stop");
}

TEST_F(AwsTest, AnExpiredTokenIsRenewedAtOnce) {
  Give(200, "abc");
  Give(404, "");
  Give(404, "");
  Give(401, "");
  EXPECT_EQ(Path(), kToken);
  EXPECT_EQ(next_.pause, absl::ZeroDuration());
  EXPECT_EQ(Warnings(next_), 0);
  Give(200, "def");
  Give(401, "");
  EXPECT_EQ(Path(), kToken);
  EXPECT_GE(next_.pause, kAwsPeriod);
  EXPECT_EQ(Warnings(next_), 1);
}

TEST_F(AwsTest, ARecommendationIsLoggedOnce) {
  Give(200, "abc");
  int said = 0;
  for (int i = 0; i < 3 * kAwsRebalanceEvery; ++i) {
    Give(404, "");
    if (Path() == kRebalance) Give(200, R"({"noticeTime": "2026-11-21T16:00:00Z"})");
    said += Warnings(next_);
    EXPECT_EQ(next_.notice, "");
  }
  EXPECT_EQ(said, 1);
}

TEST_F(AwsTest, TokensAreNotLogged) {
  Give(200, "S3CRET tok==");
  ASSERT_EQ(Warnings(next_), 1);
  EXPECT_EQ(next_.remarks.at(0).text.find("S3CRET"), std::string::npos) << next_.remarks.at(0).text;
}

TEST_F(AwsTest, StrangeAnswersAreNeitherTokenNorNotice) {
  for (const char* token : {"", "a b", "a\r\nX: y", "<html>"}) {
    Give(200, token);
    EXPECT_EQ(Path(), kToken) << token;
    EXPECT_GE(next_.pause, kAwsPeriod);
  }
  for (const char* action : {"", "terminate", "{}", R"({"action": 5})", R"({"action": ""})", R"(["action"])",
                             R"({"action": "a b"})", R"({"action": "stop")", "\xff"}) {
    Give(200, "abc");
    ASSERT_EQ(Path(), kAction);
    Give(200, action);
    EXPECT_EQ(next_.notice, "") << action;
    EXPECT_EQ(Path(), kToken) << action;
  }
}

TEST_F(AwsTest, AContainerOutOfHopsGetsARemedy) {
  next_ = aws_->OnAnswer(absl::DeadlineExceededError("no answer in time"), kMetadataLimit);
  EXPECT_THAT(next_.remarks.at(0).text, HasSubstr("hop limit must be 2"));
}

}  // namespace
}  // namespace muster::agent
