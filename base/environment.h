// The environment variables of a process, by name.
#pragma once

#include <map>
#include <string>

namespace muster {

using Environment = std::map<std::string, std::string>;

inline constexpr char kTokenVariable[] = "MUSTER_TOKEN";  // the job's token; never passed on to workers
inline constexpr char kTokenFileVariable[] = "MUSTER_TOKEN_FILE";

}  // namespace muster
