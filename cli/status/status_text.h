// How the state of a job is shown. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/v1/control.pb.h"

namespace muster::cli {

inline constexpr int kExitAttention = 1;
inline constexpr int kExitCannotTell = 2;

// 0: it runs well; kExitAttention: not.
int CodeOf(const v1::JobView& view);
// For people: whether it is well, what is odd, and the nodes in ranges; each_node: a line for each, too.
std::string StatusText(const v1::JobView& view, bool each_node);

// Parts of that text, a line each, without a newline.
std::string Headline(const v1::JobView& view);  // without whether it is well
std::string ProgressLine(const v1::JobView& view);
std::string RestartsLine(const v1::JobView& view);
std::vector<std::string> EndedRounds(const v1::JobView& view, int most);  // the newest, the newest first
// widest: of the names in lines below each other.
std::string NodeLine(const v1::NodeView& node, size_t widest);
size_t WidestName(const v1::JobView& view);

// How a job has ended.
std::string EndText(const v1::JobEnd& end);

// What these texts are made of: a line with a title of at most 10 characters; "240ms", "4.1s", "3h12m".
void AppendRow(const char* title, const std::string& text, std::string* out);
std::string Brief(int64_t ms);

}  // namespace muster::cli
