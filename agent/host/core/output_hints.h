// What to do about a worker that wanted the keyboard and had none. Pure.
#pragma once

#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::host {

// For the failure of a worker whose standard input was /dev/null. last_lines: the end of its standard error.
// unseen: muster does not get that output, since it goes to a terminal. Empty: the failure has another reason.
std::string KeyboardHint(const v1::Failure& failure, const std::string& last_lines, bool unseen);

}  // namespace muster::host
