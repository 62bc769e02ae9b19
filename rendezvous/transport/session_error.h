// Why a session did not come about or ended, as people want to read it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

// How gRPC put it.
struct SessionError {
  int code = 0;            // grpc::StatusCode
  std::string message;     // with its addresses and debug noise
  bool connected = false;  // the coordinator had taken us before
  std::string own_limit;   // set: we gave up, after this long ("5s")
};

// Whether the coordinator's name did not resolve.
bool IsNameError(const SessionError& error);

// One line: "cannot reach the coordinator at HOST:PORT: connection refused". target: "host:port".
std::string DescribeSessionError(const SessionError& error, std::string_view target);

// Whether a line of DescribeSessionError says that something else than a coordinator answers.
bool IsOtherProgram(std::string_view description);

// The exit code if we were turned away for good, else 0.
int RefusalCode(int code);

}  // namespace muster::rendezvous
