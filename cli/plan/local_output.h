// The output of one node of `muster local`: whole lines, each behind the node's name and, where a worker wrote it,
// the rank. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace muster::cli {

inline constexpr size_t kMaxLocalLineBytes = 256 * 1024;  // of a line held back; a longer one is shown in parts

class NodeOutput {
 public:
  NodeOutput(int node, bool colour) : node_(node), colour_(colour) {}

  // Takes what is whole by now: pieces that end with a newline or a carriage return, and whose they are: the rank
  // as the node said it, or nothing.
  using Take = std::function<void(std::string_view rank, std::string_view piece)>;
  void Feed(std::string_view bytes, const Take& take);
  // No more will come: an unfinished line is shown, with a newline.
  void End(const Take& take);

 private:
  void Show(std::string_view piece, const Take& take);

  const int node_;
  const bool colour_;
  std::string pending_;
  std::string rank_;   // of the last piece
  std::string state_;  // it, if a carriage return ended it: a newline alone makes it a line
};

}  // namespace muster::cli
