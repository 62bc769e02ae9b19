#include "agent/platform/notice/notice.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/bounded_json.h"
#include "base/text/problem.h"

namespace muster::agent {
namespace {

constexpr absl::Duration kSpareOfGce = absl::Seconds(15);  // added to the time for which GCE's server should wait
constexpr size_t kMaxTag = 64;
constexpr size_t kMaxToken = 1024;
constexpr size_t kMaxWord = 64;
constexpr JsonLimits kJsonLimits = {.max_bytes = kMaxMetadataBytes, .max_depth = 4};

// Whether a text from the server may be put into a request or into a message.
bool IsWord(absl::string_view text, absl::string_view others, size_t most) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [others](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || others.find(c) != absl::string_view::npos;
  });
}

std::string HeaderOf(const HttpAnswer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? std::string() : found->second;
}

// Reports an outage once and then retries silently with increasing pauses. After the first report, a further
// outage is reported only if it lasts, so that a server that fails now and then does not fill the log.
class Outage {
 public:
  explicit Outage(std::string what) : what_(std::move(what)) {}

  void Fails(const std::string& why, NoticeInquiry::Next* next) {
    pause_ = std::clamp(pause_ * 2, kLeastPause, kMostPause);
    next->pause = pause_;
    const bool report = !reported_ && (!ever_reported_ || pause_ == kMostPause);
    next->remarks.push_back({report ? Severity::kWarning : Severity::kDebug,
                             absl::StrCat("preemption notice: ", what_, ": ", why,
                                          report ? "; retrying with increasing pauses" : "")});
    if (report) reported_ = ever_reported_ = true;
    fails_ = true;
  }
  void Answers(NoticeInquiry::Next* next) {
    if (fails_) {
      next->remarks.push_back({reported_ ? Severity::kInfo : Severity::kDebug,
                               absl::StrCat("preemption notice: ", what_, " answers")});
    }
    fails_ = reported_ = false;
    pause_ = absl::ZeroDuration();
  }

 private:
  const std::string what_;
  bool ever_reported_ = false;
  bool reported_ = false;  // the present outage was reported
  bool fails_ = false;     // the last request failed
  absl::Duration pause_;
};

std::string Unexpected(const HttpAnswer& answer) {
  return absl::StrCat("answered ", answer.status,
                      answer.status == 200 ? absl::StrCat(" with '", Shown(answer.body), "'") : "");
}

// Watches one key of GCE's metadata server.
class GceInquiry : public NoticeInquiry {
 public:
  explicit GceInquiry(std::string key)
      : key_(std::move(key)), outage_(absl::StrCat("GCE's metadata server, instance/", key_)) {}

  Next Begin() override {
    Next next;
    next.request = Request();
    return next;
  }

  Next OnAnswer(const absl::StatusOr<HttpAnswer>& answer, absl::Duration took) override {
    Next next;
    const std::string problem = Read(answer, &next);
    if (problem.empty()) {
      outage_.Answers(&next);
      // The server may answer at once even when asked to wait.
      if (waits_ && took < kLeastPause) next.pause = kLeastPause;
      waits_ = true;
    } else {
      outage_.Fails(problem, &next);
      tag_.clear();
      waits_ = false;  // read the present value before waiting for a change
    }
    next.request = Request();
    return next;
  }

 private:
  HttpRequest Request() const {
    HttpRequest request;
    request.path = absl::StrCat("/computeMetadata/v1/instance/", key_);
    request.headers = {{"Metadata-Flavor", "Google"}};
    request.limit = kMetadataLimit;
    if (!waits_) return request;
    absl::StrAppend(&request.path, "?wait_for_change=true&timeout_sec=", absl::ToInt64Seconds(kGceWait));
    if (!tag_.empty()) absl::StrAppend(&request.path, "&last_etag=", tag_);
    request.limit = kGceWait + kSpareOfGce;
    return request;
  }

  // Returns what is wrong with the answer; empty: nothing.
  std::string Read(const absl::StatusOr<HttpAnswer>& answer, Next* next) {
    if (!answer.ok()) return std::string(AsStd(answer.status().message()));
    if (answer->status != 200) return Unexpected(*answer);
    if (HeaderOf(*answer, "metadata-flavor") != "Google")
      return "the answer is not from GCE's metadata server (no Metadata-Flavor: Google)";
    const std::string value(absl::StripAsciiWhitespace(answer->body));
    const bool known = key_ == "preempted" ? Preempted(value, next) : Maintenance(value, next);
    if (!known) return Unexpected(*answer);
    const std::string tag = HeaderOf(*answer, "etag");
    tag_ = IsWord(tag, "", kMaxTag) ? tag : "";
    return "";
  }

  static bool Preempted(const std::string& value, Next* next) {
    if (value == "TRUE") next->notice = "preemption notice of gce: this instance is being preempted";
    return value == "TRUE" || value == "FALSE";
  }

  bool Maintenance(const std::string& value, Next* next) {
    if (value == "TERMINATE_ON_HOST_MAINTENANCE") {
      next->notice = "preemption notice of gce: host maintenance is about to end this instance";
      return true;
    }
    const bool migrates = value == "MIGRATE_ON_HOST_MAINTENANCE";
    if (migrates && !migrates_) {
      next->remarks.push_back({Severity::kInfo, "GCE is about to migrate this instance; the job continues"});
    }
    migrates_ = migrates;
    return migrates || value == "NONE";
  }

  const std::string key_;
  Outage outage_;
  bool waits_ = false;  // the next request waits for a change; false: it reads the present value
  std::string tag_;
  bool migrates_ = false;
};

class AwsInquiry : public NoticeInquiry {
 public:
  Next Begin() override { return Asking(kToken, absl::ZeroDuration()); }

  Next OnAnswer(const absl::StatusOr<HttpAnswer>& answer, absl::Duration) override {
    if (!answer.ok()) {
      const bool perhaps_far = asked_ == kToken && absl::IsDeadlineExceeded(answer.status());
      return Failing(absl::StrCat(answer.status().message(),
                                  perhaps_far ? " (in a container, the instance's hop limit must be 2)" : ""));
    }
    switch (asked_) {
      case kToken:
        return OnToken(*answer);
      case kAction:
        return OnAction(*answer);
      default:
        return OnRebalance(*answer);
    }
  }

 private:
  enum Question { kToken, kAction, kRebalance };

  Next Asking(Question question, absl::Duration pause) {
    asked_ = question;
    Next next;
    next.pause = pause;
    next.request.limit = kMetadataLimit;
    if (question == kToken) {
      next.request.method = "PUT";
      next.request.path = "/latest/api/token";
      next.request.headers = {
          {"X-aws-ec2-metadata-token-ttl-seconds", absl::StrCat(absl::ToInt64Seconds(kAwsTokenLife))}};
      return next;
    }
    next.request.path = question == kAction ? "/latest/meta-data/spot/instance-action"
                                            : "/latest/meta-data/events/recommendations/rebalance";
    next.request.headers = {{"X-aws-ec2-metadata-token", token_}};
    return next;
  }

  // Retries after at least one period, with a new token.
  Next Failing(const std::string& why) {
    Next next = Asking(kToken, absl::ZeroDuration());
    outage_.Fails(why, &next);
    next.pause = std::max(next.pause, kAwsPeriod);
    return next;
  }

  Next OnToken(const HttpAnswer& answer) {
    const std::string token(absl::StripAsciiWhitespace(answer.body));
    if (answer.status != 200 || !IsWord(token, "-_=+/.", kMaxToken)) {
      // The body is not shown: it may contain a token.
      return Failing(absl::StrCat("no token: it answered ", answer.status,
                                  answer.status == 200 ? " with an invalid token" : ""));
    }
    token_ = token;
    fresh_ = true;
    return Asking(kAction, absl::ZeroDuration());
  }

  Next OnAction(const HttpAnswer& answer) {
    if (answer.status == 401 && !fresh_) return Asking(kToken, absl::ZeroDuration());  // the token has expired
    if (answer.status == 404) return Answered(++periods_ % kAwsRebalanceEvery == 1);
    const std::optional<std::string> notice = answer.status == 200 ? NoticeIn(answer.body) : std::nullopt;
    if (!notice) return Failing(absl::StrCat("spot/instance-action ", Unexpected(answer)));
    Next next;
    next.notice = *notice;
    return next;
  }

  // {"action": "terminate", "time": "2017-09-18T08:22:00Z"}
  static std::optional<std::string> NoticeIn(const std::string& body) {
    const auto json = ParseBoundedJson(body, kJsonLimits);
    if (!json.ok() || !json->is_object()) return std::nullopt;
    const auto word = [&](const char* key, absl::string_view others) {
      const auto found = json->find(key);
      const std::string text = found != json->end() && found->is_string() ? found->get<std::string>() : "";
      return IsWord(text, others, kMaxWord) ? text : "";
    };
    const std::string action = word("action", "-_");
    if (action.empty()) return std::nullopt;
    const std::string time = word("time", "-:.+");
    return absl::StrCat("preemption notice of aws: ", action, time.empty() ? "" : absl::StrCat(" at ", time));
  }

  Next OnRebalance(const HttpAnswer& answer) {
    if (answer.status == 401) return Asking(kToken, absl::ZeroDuration());
    Next next = Answered(false);
    if (answer.status == 200 && !recommended_) {
      recommended_ = true;
      next.remarks.push_back({Severity::kWarning,
                              "EC2 recommends leaving this instance (rebalance recommendation): the risk of an "
                              "interruption is raised; the job continues"});
    }
    return next;
  }

  Next Answered(bool rebalance_too) {
    fresh_ = false;
    Next next = rebalance_too ? Asking(kRebalance, absl::ZeroDuration()) : Asking(kAction, kAwsPeriod);
    outage_.Answers(&next);
    return next;
  }

  Outage outage_{"EC2's metadata server"};
  Question asked_ = kToken;
  std::string token_;
  bool fresh_ = false;  // the token has not been used yet
  int periods_ = 0;
  bool recommended_ = false;
};

}  // namespace

std::vector<std::unique_ptr<NoticeInquiry>> InquiriesOf(v1::NoticeSource::Kind kind) {
  std::vector<std::unique_ptr<NoticeInquiry>> inquiries;
  if (kind == v1::NoticeSource::GCE) {
    inquiries.push_back(std::make_unique<GceInquiry>("preempted"));
    inquiries.push_back(std::make_unique<GceInquiry>("maintenance-event"));
  } else if (kind == v1::NoticeSource::AWS) {
    inquiries.push_back(std::make_unique<AwsInquiry>());
  }
  return inquiries;
}

}  // namespace muster::agent
