// Turns the error of a session into one line for people. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

// As gRPC reports it or, before the coordinator has accepted this agent, the dialer.
struct SessionError {
  int code = 0;                 // grpc::StatusCode, whose values are those of absl::StatusCode
  std::string message;          // of gRPC: with its addresses and debugging text
  bool connected = false;       // the coordinator had accepted this agent before
  std::string own_limit = {};   // not empty: our own time limit ended the attempt; the limit, "5s"
  bool reached_before = false;  // an earlier session of this process reached the coordinator: it was there once
};

// Whether the coordinator's name did not resolve.
bool IsNameError(const SessionError& error);

// Whether gRPC reports only that its socket was closed.
bool IsClosedSocket(const SessionError& error);

// One line: "cannot connect to TARGET: connection refused (...)". target: "the primary at HOST:PORT".
std::string DescribeSessionError(const SessionError& error, std::string_view target);

// Whether a line of DescribeSessionError reports that the program that answers is no coordinator.
bool IsOtherProgram(std::string_view description);

// The exit code if the coordinator refused this node for good (a gRPC status code), else 0.
int RefusalCode(int code);

}  // namespace muster::rendezvous
