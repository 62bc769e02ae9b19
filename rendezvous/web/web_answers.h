// What a request to a coordinator's web server (--http) is answered. Pure.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::rendezvous {

struct WebRequest {
  std::string path;           // without a query
  std::string host;           // the header, "node0:9400"; empty: none
  std::string authorization;  // the header; empty: none
};

struct WebReply {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct WebAccess {
  std::string token;    // needed for what tells something of the job; empty: nobody needs one
  std::string version;  // of muster
};

// The job, when it was looked at, and when its coordinator began.
struct JobSeen {
  v1::JobView view;
  absl::Time at;
  absl::Time began;
};

// look: nullptr: the job cannot be told now. Called only if the answer needs it.
WebReply AnswerTo(const WebRequest& request, const WebAccess& access,
                  const std::function<std::shared_ptr<const JobSeen>()>& look);

}  // namespace muster::rendezvous
