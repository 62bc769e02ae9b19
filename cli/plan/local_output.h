// The output of one node of `muster local`: whole lines, each prefixed with the node and, for a worker's line, the
// rank. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace muster::cli {

inline constexpr size_t kMaxLocalLineBytes = 256 * 1024;  // of an unfinished line; a longer one is shown in parts

class NodeOutput {
 public:
  NodeOutput(int node, bool colour) : node_(node), colour_(colour) {}

  // Receives pieces that end with a newline or a carriage return, the bytes of their prefix, and the rank of the
  // worker that wrote each, as the node reported it; empty: the node itself.
  using Take = std::function<void(std::string_view rank, size_t prefix_bytes, std::string_view piece)>;
  void Feed(std::string_view bytes, const Take& take);
  // End of the output: shows an unfinished line, with a newline added.
  void End(const Take& take);

 private:
  void Show(std::string_view piece, const Take& take);

  const int node_;
  const bool colour_;
  std::string pending_;
  std::string rank_;         // of the last piece
  size_t prefix_bytes_ = 0;  // the same
  std::string state_;        // the last piece if a carriage return ended it; a newline alone turns it into a line
};

}  // namespace muster::cli
