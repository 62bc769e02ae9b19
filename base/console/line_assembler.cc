#include "base/console/line_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster {
namespace {

constexpr std::string_view kCursorUpNewline = "\033[A\n";

// Removes cursor-up sequences from the end of the text and returns their number.
size_t StripCursorUp(std::string* text) {
  size_t count = 0;
  for (; text->ends_with(kCursorUp); ++count) text->resize(text->size() - kCursorUp.size());
  return count;
}

// The same at the beginning of the text.
size_t SkipCursorUp(std::string* text) {
  size_t count = 0;
  while (std::string_view(*text).substr(count * kCursorUp.size()).starts_with(kCursorUp)) ++count;
  text->erase(0, count * kCursorUp.size());
  return count;
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(' ') == std::string_view::npos; }

// Whether this byte moves the cursor away instead of writing text into its row.
bool MovesCursor(char c) { return c == '\r' || c == '\n' || c == kCursorUp.front(); }

size_t Find(std::string_view bytes, char wanted, size_t from) {
  const void* const found = std::memchr(bytes.data() + from, wanted, bytes.size() - from);
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

bool IsNamePart(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

// Fast path: a line that is complete in `bytes`, as nearly all lines of a busy worker are, costs one search and
// one copy.
void LineAssembler::Feed(BootTime now, std::string_view bytes, std::string* out) {
  size_t redraw = Find(bytes, '\r', 0);
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = Find(bytes, '\n', begin);
    const std::string_view line = bytes.substr(begin, end == std::string_view::npos ? end : end + 1 - begin);
    if (redraw < begin) redraw = Find(bytes, '\r', begin);
    const bool whole = end < redraw && end - begin <= kMaxLineBytes && !InLine() && !line.starts_with(kCursorUp) &&
                       !line.ends_with(kCursorUpNewline);
    if (whole) {
      *out += prefix_;
      *out += line;
    } else {
      TakeRest(now, line, out);
    }
    begin += line.size();
  }
}

// Slow path: any bytes, in any state.
void LineAssembler::TakeRest(BootTime now, std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    // A carriage return at the end of the last part and a newline at the start of this one form one line ending.
    if (!pending_.empty() && pending_.back() == '\r') {
      pending_.pop_back();
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        Newline(now, "\r\n", out);
      } else {
        CarriageReturn(now, out);
      }
      continue;
    }
    const bool other_text = pending_.empty() && !returned_ && !MovesCursor(bytes.front());
    if (row_ > 0 && other_text) Settle(now, out);
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (pending_.empty()) since_ = now;
    const size_t room = kMaxLineBytes - std::min(kMaxLineBytes, pending_.size());
    if (part.size() > room) {
      pending_ += part.substr(0, room);
      bytes.remove_prefix(room);
      if (row_ > 0) Settle(now, out);
      ShowUnfinished(out);
      continue;
    }
    pending_ += part;
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (part.data()[part.size()] == '\n') {
      Newline(now, "\n", out);
    } else {
      pending_ += '\r';  // the next byte decides whether a newline follows
    }
  }
}

void LineAssembler::Newline(BootTime now, std::string_view ending, std::string* out) {
  if (Place(now, /*line_ends=*/true, out) && row_ == 0) State(now, out);
  if (row_ > 0 && wrote_below_) Settle(now, out);
  if (above_ > 0) {
    --above_;
    returned_ = false;
    return;
  }
  if (row_ == 0 && !Redrawn()) return Line(std::exchange(pending_, ""), ending, out);
  if (row_ == 0) {
    if (rows_.empty()) rows_.emplace_back();
    rows_[0].written = true;
    rows_[0].ending = ending;
    left_at_ = now;
  }
  ++row_;
  returned_ = wrote_below_ = false;
  if (row_ == kMaxRows) Settle(now, out);
}

void LineAssembler::CarriageReturn(BootTime now, std::string* out) {
  const bool wrote = !pending_.empty();
  Place(now, /*line_ends=*/false, out);
  returned_ = true;
  if (wrote && row_ == 0) State(now, out);
}

// Makes pending_ the state of the cursor's row, unless it is a complete line that was never redrawn, and follows
// the cursor-up sequences after it. line_ends: a newline comes next. Returns whether the cursor has moved up.
bool LineAssembler::Place(BootTime now, bool line_ends, std::string* out) {
  const size_t ups = StripCursorUp(&pending_);
  if (const size_t first = SkipCursorUp(&pending_); first > 0) MoveUp(first);
  if (!pending_.empty()) {
    const bool may_come_back = returned_ && !wrote_below_ && (ups > 0 || !line_ends);
    if (row_ > 0 && !may_come_back) Settle(now, out);
    if (Redrawn() || row_ > 0 || ups > 0 || !line_ends) Write(std::exchange(pending_, ""));
  }
  if (ups > 0) MoveUp(ups);
  return ups > 0;
}

// The cursor does not come back: prints the rows above it as lines, and makes its own row the first.
void LineAssembler::Settle(BootTime now, std::string* out) {
  for (size_t row = 0; row < row_; ++row) ShowAsLine(row, out);
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(std::min(row_, rows_.size())));
  if (!wrote_below_ && !rows_.empty()) rows_[0] = Row();  // about to be overwritten
  while (!rows_.empty() && rows_.back().text.empty()) rows_.pop_back();
  row_ = 0;
  wrote_below_ = continued_ = false;
  State(now, out);
}

void LineAssembler::Write(std::string text) {
  rows_.insert(rows_.begin(), std::exchange(above_, 0), Row());
  if (rows_.size() <= row_) rows_.resize(row_ + 1);
  if (rows_.size() > kMaxRows) rows_.resize(kMaxRows);
  Row& row = rows_[row_];
  if (IsBlank(text)) text.clear();
  row.written = true;
  row.shown = row.shown && row.text == text;
  row.text = std::move(text);
  wrote_below_ = row_ > 0;
}

void LineAssembler::MoveUp(size_t rows) {
  const size_t within = std::min(rows, row_);
  row_ -= within;
  above_ = std::min(above_ + rows - within, kMaxRows);
  returned_ = true;
  wrote_below_ = false;
}

BootTime LineAssembler::due() const {
  BootTime due = absl::InfiniteFuture();
  if (EndsState() || (!pending_.empty() && row_ == 0 && Redrawn())) {
    due = since_ + kStateAfter;
  } else if (!pending_.empty() && row_ == 0) {
    due = since_ + kUnfinishedAfter;
  }
  if (row_ > 0) due = std::min(due, left_at_ + (!limit_ && AnyUnshown() ? kStateAfter : kUnfinishedAfter));
  if (state_waits_) due = std::min(due, limit_->next);
  return due;
}

void LineAssembler::OnTime(BootTime now, std::string* out) {
  if (now < due()) return;
  const bool away_for_long = row_ > 0 && now >= left_at_ + kUnfinishedAfter;
  if (EndsState() && (now >= since_ + kStateAfter || away_for_long)) {
    if (pending_.ends_with('\r')) pending_.pop_back();
    CarriageReturn(now, out);
  }
  if (row_ > 0 && away_for_long) Settle(now, out);
  if (!pending_.empty() && row_ == 0 && !EndsState()) {
    if (Redrawn() && now >= since_ + kStateAfter) {
      CarriageReturn(now, out);
    } else if (!Redrawn() && now >= since_ + kUnfinishedAfter) {
      ShowUnfinished(out);
    }
  }
  if (row_ > 0 && !limit_ && AnyUnshown() && now >= left_at_ + kStateAfter) ShowState(now, out);
  if (state_waits_ && now >= limit_->next) ShowState(now, out);
}

void LineAssembler::End(std::string* out) {
  over_ = true;
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  Place(absl::InfinitePast(), /*line_ends=*/true, out);
  if (row_ > 0) Settle(absl::InfinitePast(), out);
  if (!pending_.empty()) Line(std::exchange(pending_, ""), "\n", out);
  for (size_t row = 0; row < rows_.size(); ++row) ShowAsLine(row, out);
  rows_.clear();
}

void LineAssembler::Break(std::string* out) {
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  if (!pending_.empty()) ShowUnfinished(out);
  rows_.clear();
  row_ = above_ = 0;
  continued_ = returned_ = wrote_below_ = state_waits_ = false;
}

bool LineAssembler::AnyUnshown() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return !row.shown && !row.text.empty(); });
}

// Ends a line that was never redrawn. The newline of a line whose text was already shown completely adds nothing.
void LineAssembler::Line(std::string_view text, std::string_view ending, std::string* out) {
  if (!text.empty() || !continued_) {
    *out += prefix_;
    if (continued_) *out += kContinuedMark;
    *out += text;
    *out += ending;
  }
  continued_ = returned_ = false;
  if (rows_.empty()) return;
  rows_.erase(rows_.begin());  // the line has overwritten this row
  for (Row& row : rows_) row.shown = row.shown && limit_;
  State(absl::InfinitePast(), out);
}

// Prints a row that the cursor has left for good. A cleared row prints nothing, nor does a state that was already
// shown as a line.
void LineAssembler::ShowAsLine(size_t index, std::string* out) {
  static const Row kEmpty;
  const Row& row = index < rows_.size() ? rows_[index] : kEmpty;
  if (row.written && (row.text.empty() || (limit_ && row.shown))) return;
  *out += prefix_;
  if (continued_ && index == 0) *out += kContinuedMark;
  *out += row.text;
  *out += row.ending;
}

// The rows have changed: shows them, or keeps them until the limit allows it.
void LineAssembler::State(BootTime now, std::string* out) {
  state_waits_ = limit_ != nullptr && AnyUnshown();
  if (over_ || rows_.empty()) return;
  if (!limit_ || (state_waits_ && now >= limit_->next)) ShowState(now, out);
}

void LineAssembler::ShowState(BootTime now, std::string* out) {
  bool any = false;
  for (Row& row : rows_) {
    if (row.text.empty() || (limit_ && row.shown)) continue;
    if (!limit_ && any) *out += kRowBreak;
    *out += prefix_;
    if (continued_ && &row == &rows_[0]) *out += kContinuedMark;
    *out += row.text;
    if (limit_) *out += '\n';
    row.shown = any = true;
  }
  if (!limit_) {
    if (!any) *out += prefix_;
    *out += '\r';
  }
  state_waits_ = false;
  if (limit_) limit_->next = now + kRedrawEvery;
}

void LineAssembler::ShowUnfinished(std::string* out) {
  *out += prefix_;
  if (continued_) *out += kContinuedMark;
  *out += std::exchange(pending_, "");
  *out += kUnfinishedMark;
  *out += '\n';
  continued_ = true;
}

std::string ExpandPrefix(std::string_view pattern, const PrefixFields& fields) {
  return Expand(pattern, {{"role_name", fields.role_name},
                          {"local_rank", std::to_string(fields.local_rank)},
                          {"rank", std::to_string(fields.rank)},
                          {"node_rank", std::to_string(fields.node_rank)},
                          {"hostname", fields.hostname}});
}

std::string Expand(std::string_view pattern, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string expanded;
  while (!pattern.empty()) {
    if (pattern.front() != '$') {
      expanded += pattern.front();
      pattern.remove_prefix(1);
      continue;
    }
    if (pattern.starts_with("$$")) {
      expanded += '$';
      pattern.remove_prefix(2);
      continue;
    }
    const bool braced = pattern.starts_with("${");
    const size_t begin = braced ? 2 : 1;
    size_t end = begin;
    while (end < pattern.size() && IsNamePart(pattern[end])) ++end;
    const std::string_view name = pattern.substr(begin, end - begin);
    const bool closed = !braced || (end < pattern.size() && pattern[end] == '}');
    const auto known = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    if (closed && known != values.end()) {
      expanded += known->second;
      pattern.remove_prefix(end + (braced ? 1 : 0));
    } else {
      expanded += '$';
      pattern.remove_prefix(1);
    }
  }
  return expanded;
}

}  // namespace muster
