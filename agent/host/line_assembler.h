// Makes whole, prefixed lines of one worker's output. Pure.
//
// A line that stays unfinished for kUnfinishedAfter is shown with kUnfinishedMark at its end, and what follows of
// it with kContinuedMark at its start.
//
// What a carriage return ends, or a newline behind a cursor's move up, is a state of a line that redraws itself (a
// progress bar). Where redraws pass, each comes out with a carriage return at its end, for a terminal; else one of
// them comes out as a line of its own every kRedrawEvery at most. The line as its newline leaves it comes out in
// both cases.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/time.h"

namespace muster::host {

inline constexpr absl::Duration kUnfinishedAfter = absl::Seconds(1);
inline constexpr absl::Duration kStateAfter = absl::Milliseconds(100);  // a state that is not ended by anything
inline constexpr absl::Duration kRedrawEvery = absl::Seconds(10);       // of one rank, where redraws do not pass
inline constexpr size_t kMaxLineBytes = 64 * 1024;  // of a line held back; a longer one is shown in parts
inline constexpr std::string_view kUnfinishedMark = " [...]";
inline constexpr std::string_view kContinuedMark = "[...] ";

// When the next state may be shown; shared by the streams of one rank, which are one thread's.
struct RedrawLimit {
  BootTime next = absl::InfinitePast();
};

class LineAssembler {
 public:
  // limit: nullptr: redraws pass.
  explicit LineAssembler(std::string prefix, std::shared_ptr<RedrawLimit> limit = nullptr)
      : prefix_(std::move(prefix)), limit_(std::move(limit)) {}

  // Each appends to out what can be shown by now: pieces that end with "\n" or "\r".
  void Feed(BootTime now, std::string_view bytes, std::string* out);
  void OnTime(BootTime now, std::string* out);
  void End(std::string* out);    // no more will come: an unfinished line is shown, with a newline
  void Break(std::string* out);  // the rest of this line is lost: what there is of it is shown with a mark

  // When OnTime has something to do; InfiniteFuture: not before the next Feed.
  BootTime due() const;

 private:
  void TakeRest(BootTime now, std::string_view bytes, std::string* out);
  void Line(std::string_view text, std::string_view ending, std::string* out);
  void State(BootTime now, std::string* out);
  void ShowState(BootTime now, std::string* out);
  void ShowUnfinished(std::string* out);

  const std::string prefix_;
  const std::shared_ptr<RedrawLimit> limit_;
  std::string pending_;
  BootTime since_ = absl::InfiniteFuture();  // when pending_ began
  bool continued_ = false;                   // an earlier part of this line was shown
  bool redrawn_ = false;                     // a carriage return came before pending_ in this line
  std::string state_;                        // the latest of this line
  bool state_waits_ = false;                 // not shown yet
};

struct PrefixFields {
  std::string role_name = "";
  int local_rank = 0;
  int rank = 0;
  int node_rank = 0;
  std::string hostname = "";
};

// $name and ${name} of each field in a template of a prefix, and $$ for a dollar; anything else is left alone.
std::string ExpandPrefix(std::string_view pattern, const PrefixFields& fields);
// The same for any names.
std::string Expand(std::string_view pattern, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace muster::host
