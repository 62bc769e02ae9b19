// What is asked of a cloud's metadata server, and what its answers mean: is this machine about to be taken away?
//
// GCE (cloud.google.com/compute/docs/instances/spot, .../metadata/getting-live-migration-notice):
// instance/preempted is FALSE, then TRUE; instance/maintenance-event is NONE, then MIGRATE_ON_HOST_MAINTENANCE or,
// where a GPU forbids that, TERMINATE_ON_HOST_MAINTENANCE. Both may be waited for: wait_for_change, with the ETag
// of what was seen last, so that no change falls between two questions. EC2
// (UserGuide/spot-instance-termination-notices): a token by PUT, then spot/instance-action every 5 s, 404 until
// there is one; a rebalance recommendation is only worth a line.
//
// Pure: an answer in, the next question out. Each object belongs to one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/note.h"
#include "muster/v1/host.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kGceWait = absl::Seconds(60);       // of one question to GCE, at its server
inline constexpr absl::Duration kAwsPeriod = absl::Seconds(5);      // as EC2's documents advise
inline constexpr absl::Duration kMetadataLimit = absl::Seconds(5);  // of a question that is answered at once
inline constexpr absl::Duration kLeastPause = absl::Seconds(1);     // after an answer that came at once, or none
inline constexpr absl::Duration kMostPause = absl::Seconds(30);     // between two questions that fail
inline constexpr int kAwsRebalanceEvery = 6;                        // of its periods
inline constexpr absl::Duration kAwsTokenLife = absl::Hours(6);     // the longest there is
inline constexpr size_t kMaxMetadataBytes = 4096;                   // of an answer

struct HttpRequest {
  std::string method = "GET";
  std::string path;  // with its query
  std::vector<std::pair<std::string, std::string>> headers;
  absl::Duration limit;  // from the beginning of the connection to the last byte
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;                            // at most kMaxMetadataBytes
};

class NoticeInquiry {
 public:
  struct Next {
    std::string notice;  // not empty: the machine is about to go, and why. Nothing more is asked
    std::vector<Note> remarks;
    absl::Duration pause;  // before the request
    HttpRequest request;
  };

  virtual ~NoticeInquiry() = default;
  virtual Next Begin() = 0;
  // took: from the request to its answer, or to its failure.
  virtual Next OnAnswer(const absl::StatusOr<HttpAnswer>& answer, absl::Duration took) = 0;
};

// To be asked side by side. None for a source that is no server.
std::vector<std::unique_ptr<NoticeInquiry>> InquiriesOf(v1::NoticeSource::Kind kind);

}  // namespace muster::agent
