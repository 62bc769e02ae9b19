#include "base/wire/failure.h"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/exception_text.h"
#include "base/text/signal_name.h"

namespace muster {
namespace {

// Error texts of sockets, gloo, NCCL and TCPStore when the peer has gone.
constexpr const char* kEchoes[] = {"onnection reset by peer",
                                   "onnection closed by peer",
                                   "onnection closed by remote peer",
                                   "roken pipe",
                                   "ncclRemoteError",
                                   "remote process exited",
                                   "got 0 bytes",
                                   "Connection was likely closed"};

bool SaysThatAPeerHasGone(const std::string& text) {
  return std::any_of(std::begin(kEchoes), std::end(kEchoes),
                     [&text](const char* echo) { return absl::StrContains(text, echo); });
}

}  // namespace

bool SoundsLikeAnEcho(const v1::Failure& failure) {
  if (failure.oom_killed() || (failure.has_signal() && failure.signal() != SIGABRT)) return false;
  return SaysThatAPeerHasGone(failure.error_text()) || SaysThatAPeerHasGone(FinalMessage(failure.callstack())) ||
         SaysThatAPeerHasGone(FinalMessage(failure.last_output()));
}

std::string DescribeEcho(const v1::Failure& failure, int world_size) {
  if (world_size <= 1 || !SoundsLikeAnEcho(failure)) return "";
  return "; its output reports a lost connection: another rank's failure may be the cause";
}

std::string DescribeEnd(const v1::Failure& failure) {
  if (WasNeverStarted(failure)) return "could not be started";
  if (failure.hung())
    return failure.hung_for_all() ? "was ended, because the round hangs" : "hangs, and was ended";
  if (failure.oom_killed()) return "was killed because memory ran out";
  return failure.has_signal() ? absl::StrCat("was killed (", DescribeSignal(failure.signal()), ")")
                              : absl::StrCat("exited with code ", failure.exit_code());
}

}  // namespace muster
