// What to do about a failure, by the last lines that its worker wrote. Pure.
#pragma once

#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// For the failure of a worker whose standard input was /dev/null. last_lines: the end of its standard error.
// unseen: muster does not get that output, since it goes to a terminal. Empty: the failure has another reason.
std::string KeyboardHint(const v1::Failure& failure, const std::string& last_lines, bool unseen);

// Whether a usage error may come from --local-rank: the lines name it or an unknown argument, or are not known.
bool MayMeanLocalRank(const std::string& last_lines);

// For a script whose parser has rejected the option with the local rank that each worker gets. option: see
// HostOptions; empty: they get none. Empty: the failure has another reason.
std::string UnknownOptionHint(const v1::Failure& failure, const std::string& last_lines,
                              const std::string& option);

// For a worker that could not import a module. python: see HostOptions. Empty: the failure has another reason.
std::string MissingModuleHint(const v1::Failure& failure, const std::string& last_lines,
                              const std::string& python);

}  // namespace muster::host
