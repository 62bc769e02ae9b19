// Makes whole, prefixed lines of one worker's output. Pure.
//
// A line that stays unfinished for kUnfinishedAfter is shown with kUnfinishedMark at its end, and what follows of
// it with kContinuedMark at its start. A part that ends with a carriage return (a progress bar redrawing itself)
// is passed on as it is, so that it redraws on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/time.h"

namespace muster::host {

inline constexpr absl::Duration kUnfinishedAfter = absl::Seconds(1);
inline constexpr size_t kMaxLineBytes = 64 * 1024;  // of a line held back; a longer one is shown in parts
inline constexpr std::string_view kUnfinishedMark = " [...]";
inline constexpr std::string_view kContinuedMark = "[...] ";

class LineAssembler {
 public:
  explicit LineAssembler(std::string prefix) : prefix_(std::move(prefix)) {}

  // Each appends to out what can be shown by now: pieces that end with "\n" or "\r".
  void Feed(BootTime now, std::string_view bytes, std::string* out);
  void OnTime(BootTime now, std::string* out);
  void End(std::string* out);  // no more will come: an unfinished line is shown, with a newline

  // When OnTime has something to do; InfiniteFuture: not before the next Feed.
  BootTime due() const { return pending_.empty() ? absl::InfiniteFuture() : since_ + kUnfinishedAfter; }

 private:
  void Show(std::string_view ending, std::string* out);
  void ShowUnfinished(std::string* out);

  const std::string prefix_;
  std::string pending_;
  BootTime since_ = absl::InfiniteFuture();  // when pending_ began
  bool continued_ = false;                   // an earlier part of this line was shown
};

// ${rank}, ${local_rank} and ${node_rank} in a template of a prefix.
std::string ExpandPrefix(std::string_view pattern, int rank, int local_rank, int node_rank);

}  // namespace muster::host
