// The output of one node of `muster local`: whole lines, each behind the node's name and, where a worker wrote it,
// the rank. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

inline constexpr size_t kMaxLocalLineBytes = 256 * 1024;  // of a line held back; a longer one is shown in parts

class NodeOutput {
 public:
  NodeOutput(int node, bool colour) : node_(node), colour_(colour) {}

  // Appends to out what is whole by now: pieces that end with a newline or a carriage return.
  void Feed(std::string_view bytes, std::string* out);
  // No more will come: an unfinished line is shown, with a newline.
  void End(std::string* out);

 private:
  void Show(std::string_view piece, std::string* out);

  const int node_;
  const bool colour_;
  std::string pending_;
  bool redrawing_ = false;  // the last piece ended with a carriage return
};

}  // namespace muster::cli
