#include "rendezvous/transport/session_error.h"

#include <algorithm>
#include <array>

#include "base/exit_codes.h"
#include "rendezvous/gate/codec.h"
#include "rendezvous/gate/dialer.h"

namespace muster::rendezvous {
namespace {

// gRPC's codes by value: this file needs no gRPC.
constexpr int kOk = 0;
constexpr int kInvalidArgument = 3;  // of a dialer: it speaks another protocol
constexpr int kPermissionDenied = 7;
constexpr int kUnimplemented = 12;
constexpr int kUnauthenticated = 16;

constexpr size_t kMaxCauseBytes = 300;

struct Known {
  std::string_view sign;
  std::string_view cause;
  std::string_view cause_later = {};  // for a coordinator that was reached before; empty: the same
};

constexpr char kOtherProgram[] =
    "another program answers there, not muster; stop it, or use another port on all nodes";

// The kernel accepts connections for a process that is stopped, too.
constexpr char kSilent[] =
    "something there accepts connections but does not answer as muster (does another program use that port, or is "
    "the node frozen?)";
constexpr char kSilentLater[] = "it accepts connections but does not answer (frozen, or overloaded?)";

// For a node whose credentials were good before.
constexpr char kWasLetIn[] =
    "; this node was let in before: if its own token or certificate is still right, that address leads to another "
    "job now";

constexpr char kTimedOut[] =
    "timed out (do firewalls, security groups and network policies let that port through?)";

constexpr char kNameGone[] = "its name does not resolve any more (its machine is gone; not replaced yet?)";

constexpr size_t kNameSigns = 5;  // the first of kKnown

// A message may contain several signs: the most specific ones come first.
constexpr std::array<Known, 19> kKnown = {{
    {"Domain name not found", "its name does not resolve (not started yet, or a wrong name?)", kNameGone},
    {"DNS server returned", "its name does not resolve (the name server failed)"},
    {"Could not contact DNS", "its name does not resolve (no name server answers)"},
    {"DNS query cancelled", "its name does not resolve (no name server answers)"},
    {"no name server answers", "its name does not resolve (no name server answers)"},
    {"Failed parsing HTTP/2", kOtherProgram},
    {"Connection refused", "connection refused (not started yet, or a wrong address or port?)",
     "connection refused (it has ended; has it not been started again yet?)"},
    {"Cancelled on the server side", "its process has ended"},
    {"No route to host", "unreachable (no route to host)"},
    {"Network is unreachable", "unreachable (network is unreachable)"},
    {"Permission denied", "not permitted (a firewall of this machine?)"},
    {"Cancelling all calls", "the coordinator is shutting down"},
    {"keepalive", "the connection is dead (no answer to keepalive pings)"},
    {kSilentPeer, kSilent, kSilentLater},
    {"timed out", kTimedOut, "timed out"},
    {"Timeout", kTimedOut, "timed out"},
    {"eset by peer", "connection reset"},
    {"roken pipe", "connection reset"},
    {"ocket closed", "connection closed"},
}};

// Removes the debugging JSON that gRPC appends, replaces newlines, and cuts to kMaxCauseBytes.
std::string Clean(std::string_view message) {
  std::string text(message.substr(0, message.find('{')));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (text.size() > kMaxCauseBytes) text.resize(kMaxCauseBytes);
  while (!text.empty() && (text.back() == ' ' || text.back() == ':' || text.back() == ';')) text.pop_back();
  return text;
}

std::string Cause(const SessionError& error) {
  if (!error.own_limit.empty()) return "timed out after " + error.own_limit;
  if (error.code == kUnimplemented || (error.code == kInvalidArgument && !error.connected)) return kOtherProgram;
  for (const Known& known : kKnown) {
    if (error.message.find(known.sign) == std::string::npos) continue;
    return std::string(error.reached_before && !known.cause_later.empty() ? known.cause_later : known.cause);
  }
  std::string cleaned = Clean(error.message);
  if (!cleaned.empty()) return cleaned;
  return error.code == kOk ? "the coordinator ended the session" : "gRPC code " + std::to_string(error.code);
}

}  // namespace

bool IsNameError(const SessionError& error) {
  return std::any_of(kKnown.begin(), kKnown.begin() + kNameSigns,
                     [&](const Known& known) { return error.message.find(known.sign) != std::string::npos; });
}

bool IsClosedSocket(const SessionError& error) { return error.message.find("ocket closed") != std::string::npos; }

std::string DescribeSessionError(const SessionError& error, std::string_view target) {
  const std::string name(target);
  const std::string refused = Clean(error.message) + (error.reached_before && !error.connected ? kWasLetIn : "");
  const bool distrusted = error.message.starts_with(kDistrusted);
  if (distrusted) return name + " is not trusted by this node: " + refused;
  if (RefusalCode(error.code) != 0) return name + " refuses this node: " + refused;
  return (error.connected ? "lost the connection to " : "cannot connect to ") + name + ": " + Cause(error);
}

bool IsOtherProgram(std::string_view description) {
  return description.find(kOtherProgram) != std::string_view::npos;
}

int RefusalCode(int code) { return code == kUnauthenticated || code == kPermissionDenied ? kExitRefused : 0; }

}  // namespace muster::rendezvous
