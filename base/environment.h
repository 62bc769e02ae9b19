// The environment variables of a process, by name.
#pragma once

#include <map>
#include <string>

namespace muster {

using Environment = std::map<std::string, std::string>;

}  // namespace muster
