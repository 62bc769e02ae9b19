// The exception that ended a process, found in the last lines of its standard error. Pure.
#pragma once

#include <string>

namespace muster {

// What the process said last about why it ended: the message of an exception that torch's hook has printed (only
// for one that nobody has caught, so more output may follow), or else what C++ says of one, or else the last line
// that is not indented: where Python shows an exception. Empty: there is none of these.
std::string FinalMessage(const std::string& text);

// Whether an exception of Python is the end of the text: nobody has caught it, or the process has said nothing
// since it did. A message of several lines counts only if torch's hook has printed it.
bool EndsWithException(const std::string& text);

}  // namespace muster
