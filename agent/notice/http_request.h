// One request over plain HTTP, with a limit on everything. No proxy, no redirection, no kept connection.
#pragma once

#include "absl/status/statusor.h"
#include "agent/notice/notice.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// Blocks for the request's limit at the most, and until stop_fd is readable. Errors say what happened, for people:
// Unavailable, DeadlineExceeded, Cancelled (stop_fd), ResourceExhausted (an answer that is too long), NotFound (no
// such name).
absl::StatusOr<HttpAnswer> Ask(const v1::Endpoint& server, const HttpRequest& request, int stop_fd);

}  // namespace muster::agent
