// The requests to a cloud's metadata server, and the meaning of its answers: whether this machine is about to be
// taken away.
//
// GCE (cloud.google.com/compute/docs/instances/spot, .../metadata/getting-live-migration-notice):
// instance/preempted is FALSE, then TRUE; instance/maintenance-event is NONE, then MIGRATE_ON_HOST_MAINTENANCE or,
// where a GPU forbids that, TERMINATE_ON_HOST_MAINTENANCE. Both can be waited for (wait_for_change), with the ETag
// of the last value, so that no change between two requests is missed. EC2
// (UserGuide/spot-instance-termination-notices): a token by PUT, then spot/instance-action every 5 s, which is 404
// until there is a notice; a rebalance recommendation is only logged.
//
// Pure: an answer in, the next request out. Each object belongs to one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/note.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kGceWait = absl::Seconds(60);   // how long GCE's server waits for a change
inline constexpr absl::Duration kAwsPeriod = absl::Seconds(5);  // between two requests, as EC2's documents advise
inline constexpr absl::Duration kMetadataLimit = absl::Seconds(5);  // for a request without waiting
inline constexpr absl::Duration kLeastPause = absl::Seconds(1);     // after an immediate answer, or a failure
inline constexpr absl::Duration kMostPause = absl::Seconds(30);     // between two failing requests
inline constexpr int kAwsRebalanceEvery = 6;                        // periods between two rebalance requests
inline constexpr absl::Duration kAwsTokenLife = absl::Hours(6);     // the maximum that EC2 allows
inline constexpr size_t kMaxMetadataBytes = 4096;                   // of an answer

struct HttpRequest {
  std::string method = "GET";
  std::string path;  // with its query
  std::vector<std::pair<std::string, std::string>> headers;
  absl::Duration limit;  // from the start of the connection to the last byte of the answer
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // at most kMaxMetadataBytes
};

class NoticeInquiry {
 public:
  struct Next {
    std::string notice;  // not empty: the machine is about to be taken away; the reason. No request follows
    std::vector<Note> remarks;
    absl::Duration pause;  // before the request
    HttpRequest request;
  };

  virtual ~NoticeInquiry() = default;
  virtual Next Begin() = 0;
  // took: time from the request to its answer or failure.
  virtual Next OnAnswer(const absl::StatusOr<HttpAnswer>& answer, absl::Duration took) = 0;
};

// The inquiries of a source, to be run in parallel. Empty for a source that is no server.
std::vector<std::unique_ptr<NoticeInquiry>> InquiriesOf(v1::NoticeSource::Kind kind);

}  // namespace muster::agent
