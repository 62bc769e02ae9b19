// One request over plain HTTP, limited in time and size. No proxy, no redirection, no persistent connection.
#pragma once

#include "absl/status/statusor.h"
#include "agent/platform/notice/notice.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// Blocks at most for the request's limit, or until stop_fd is readable. The error texts are for people. Codes:
// Unavailable, DeadlineExceeded, Cancelled (stop_fd), ResourceExhausted (the answer is too long), NotFound (no
// such name).
absl::StatusOr<HttpAnswer> Ask(const v1::Endpoint& server, const HttpRequest& request, int stop_fd);

}  // namespace muster::agent
