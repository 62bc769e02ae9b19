// Help texts, at most 80 columns wide. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

inline constexpr size_t kHelpColumns = 80;

std::string MainHelp();
std::string RunHelp(std::string_view command = "muster run");  // or "torchrun"
std::string DeepspeedHelp();                                   // for a link named deepspeed
std::string LocalHelp();
std::string EnvHelp();
std::string HostfileHelp();
std::string CoordinatorHelp();

}  // namespace muster::cli
