// Makes whole, prefixed lines of one worker's output. Pure.
//
// A line that stays unfinished for kUnfinishedAfter is shown with kUnfinishedMark at its end, and what follows of
// it with kContinuedMark at its start.
//
// What a carriage return ends, or a cursor's move up, is a state of a line that redraws itself (a progress bar).
// Where redraws pass, each comes out with a carriage return at its end, for a terminal; else one of them comes out
// as a line of its own every kRedrawEvery at most. The line as its newline leaves it comes out in both cases.
//
// Several such lines may stand below each other, as tqdm writes them: from the first one the cursor goes down by
// newlines, and up again behind the text. So the newline of a line that redraws itself ends it only once it is
// known that the cursor does not come back: by other text, or after kUnfinishedAfter. A state that passes has all
// of these lines, with kRowBreak between them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace muster {

inline constexpr absl::Duration kUnfinishedAfter = absl::Seconds(1);
inline constexpr absl::Duration kStateAfter = absl::Milliseconds(100);  // a state that is not ended by anything
inline constexpr absl::Duration kRedrawEvery = absl::Seconds(10);       // of one rank, where redraws do not pass
inline constexpr size_t kMaxRows = 64;                                  // below each other; more are lines
inline constexpr char kRowBreak = '\v';
inline constexpr std::string_view kCursorUp = "\033[A";
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
  // A line that redraws itself.
  struct Row {
    std::string text;                // its latest state; empty: it was cleared
    std::string_view ending = "\n";  // that it has, or would have as a line
    bool written = false;            // else a newline left it empty
    bool shown = false;              // that state was
  };

  void TakeRest(BootTime now, std::string_view bytes, std::string* out);
  void Newline(BootTime now, std::string_view ending, std::string* out);
  void CarriageReturn(BootTime now, std::string* out);
  bool Place(BootTime now, bool line_ends, std::string* out);
  void Settle(BootTime now, std::string* out);
  void Write(std::string text);
  void MoveUp(size_t rows);
  bool InLine() const { return !pending_.empty() || continued_ || returned_ || above_ > 0 || !rows_.empty(); }
  // What ends pending_ ends a state, unless a newline follows at once.
  bool EndsState() const { return pending_.ends_with('\r') || pending_.ends_with(kCursorUp); }
  // The first row, where the cursor is, has states.
  bool Redrawn() const { return returned_ || (!rows_.empty() && rows_[0].written); }
  bool AnyUnshown() const;
  void Line(std::string_view text, std::string_view ending, std::string* out);
  void ShowAsLine(size_t row, std::string* out);
  void State(BootTime now, std::string* out);
  void ShowState(BootTime now, std::string* out);
  void ShowUnfinished(std::string* out);

  const std::string prefix_;
  const std::shared_ptr<RedrawLimit> limit_;
  std::string pending_;  // of the cursor's row; a carriage return at its end is not decided yet
  BootTime since_ = absl::InfiniteFuture();  // when pending_ began
  bool continued_ = false;                   // an earlier part of the first row's line was shown
  bool state_waits_ = false;                 // for limit_
  bool over_ = false;                        // no state is shown any more

  std::vector<Row> rows_;                    // empty: no line here redraws itself
  size_t row_ = 0;                           // the cursor's. Above 0: whether it comes back is not known
  size_t above_ = 0;                         // the cursor's distance from the first row upwards; then row_ is 0
  bool returned_ = false;                    // a carriage return, or a move up, came before pending_ in this row
  bool wrote_below_ = false;                 // since the cursor came to this row, which is not the first
  BootTime left_at_ = absl::InfinitePast();  // when the cursor left the first row
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

}  // namespace muster
