// Turns one worker's output into complete, prefixed lines. Pure.
//
// A line that stays unfinished for kUnfinishedAfter is shown with kUnfinishedMark at its end; the rest of it
// follows with kContinuedMark at its start.
//
// Text that ends with a carriage return or a cursor-up sequence is a state of a line that redraws itself (a
// progress bar). If redraws pass, each state is emitted with a carriage return at its end, for a terminal; else at
// most one state per kRedrawEvery is emitted, as a separate line. The final text of the line is emitted in both
// cases.
//
// Several such lines may stand below each other, as tqdm writes them: newlines move the cursor down from the first
// one, and cursor-up sequences after the text move it back. So the newline of a line that redraws itself ends the
// line only once it is certain that the cursor does not come back: after other text, or after kUnfinishedAfter. A
// state that passes consists of all these lines, with kRowBreak between them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/time.h"

namespace muster {

inline constexpr absl::Duration kUnfinishedAfter = absl::Seconds(1);
inline constexpr absl::Duration kStateAfter = absl::Milliseconds(100);  // then unended text counts as a state
inline constexpr absl::Duration kRedrawEvery = absl::Seconds(10);       // for one rank, if redraws do not pass
inline constexpr size_t kMaxRows = 64;                                  // further rows become lines
inline constexpr char kRowBreak = '\v';
inline constexpr std::string_view kCursorUp = "\033[A";
inline constexpr size_t kMaxLineBytes = 64 * 1024;  // longer lines are shown in parts
inline constexpr std::string_view kUnfinishedMark = " [...]";
inline constexpr std::string_view kContinuedMark = "[...] ";

// When the next state may be shown. Shared by the streams of one rank, which belong to one thread.
struct RedrawLimit {
  BootTime next = absl::InfinitePast();
};

class LineAssembler {
 public:
  // limit: nullptr lets redraws pass.
  explicit LineAssembler(std::string prefix, std::shared_ptr<RedrawLimit> limit = nullptr)
      : prefix_(std::move(prefix)), limit_(std::move(limit)) {}

  // These methods append to `out` what can be shown by now: pieces that end with "\n" or "\r".
  void Feed(BootTime now, std::string_view bytes, std::string* out);
  void OnTime(BootTime now, std::string* out);
  void End(std::string* out);    // the output has ended: an unfinished line is shown, with a newline
  void Break(std::string* out);  // the rest of the current line is lost: its beginning is shown with a mark

  // When to call OnTime; InfiniteFuture: not before the next Feed.
  BootTime due() const;

 private:
  // A line that redraws itself.
  struct Row {
    std::string text;                // the latest state; empty: cleared
    std::string_view ending = "\n";  // its line ending when it is printed as a line
    bool written = false;            // false: a newline left the row empty
    bool shown = false;              // the latest state was shown
  };

  void TakeRest(BootTime now, std::string_view bytes, std::string* out);
  void Newline(BootTime now, std::string_view ending, std::string* out);
  void CarriageReturn(BootTime now, std::string* out);
  bool Place(BootTime now, bool line_ends, std::string* out);
  void Settle(BootTime now, std::string* out);
  void Write(std::string text);
  void MoveUp(size_t rows);
  bool InLine() const { return !pending_.empty() || continued_ || returned_ || above_ > 0 || !rows_.empty(); }
  // pending_ ends a state, unless a newline follows at once.
  bool EndsState() const { return pending_.ends_with('\r') || pending_.ends_with(kCursorUp); }
  // The cursor's row, which is the first one, redraws itself.
  bool Redrawn() const { return returned_ || (!rows_.empty() && rows_[0].written); }
  bool AnyUnshown() const;
  void Line(std::string_view text, std::string_view ending, std::string* out);
  void ShowAsLine(size_t row, std::string* out);
  void State(BootTime now, std::string* out);
  void ShowState(BootTime now, std::string* out);
  void ShowUnfinished(std::string* out);

  const std::string prefix_;
  const std::shared_ptr<RedrawLimit> limit_;
  std::string pending_;  // text of the cursor's row; the meaning of a carriage return at its end is still open
  BootTime since_ = absl::InfiniteFuture();  // when pending_ began
  bool continued_ = false;                   // an earlier part of the first row's line was shown
  bool state_waits_ = false;                 // a state waits for limit_
  bool over_ = false;                        // no more states are shown

  std::vector<Row> rows_;     // lines that redraw themselves; may be empty
  size_t row_ = 0;            // the cursor's row. Above 0: the cursor may come back to the first row
  size_t above_ = 0;          // rows from the first row up to the cursor; if not 0, row_ is 0
  bool returned_ = false;     // a carriage return or cursor-up preceded pending_ in this row
  bool wrote_below_ = false;  // text was written since the cursor came to this row below the first
  BootTime left_at_ = absl::InfinitePast();  // when the cursor left the first row
};

struct PrefixFields {
  std::string role_name = "";
  int local_rank = 0;
  int rank = 0;
  int node_rank = 0;
  std::string hostname = "";
};

// Replaces $name and ${name} of each field in the template of a prefix, and $$ by a dollar; other text stays.
std::string ExpandPrefix(std::string_view pattern, const PrefixFields& fields);
// The same for arbitrary names.
std::string Expand(std::string_view pattern, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace muster
