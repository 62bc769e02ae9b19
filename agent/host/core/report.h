// What a person reads when a job has failed: the root cause of the whole group, the same on every node. Pure.
#pragma once

#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// Several lines, the last with its newline; empty if the verdict names no failed worker. program: the script's
// name.
std::string FailureReport(const v1::Verdict& verdict, const std::string& program);

}  // namespace muster::host
