#include "agent/host/line_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::host {
namespace {

constexpr std::string_view kCursorUp = "\033[A";

// A bar below others goes up again after each redraw: a newline before it, and this behind it.
void StripCursorUp(std::string* text) {
  while (text->ends_with(kCursorUp)) text->resize(text->size() - kCursorUp.size());
}

size_t Find(std::string_view bytes, char wanted, size_t from) {
  const void* const found = std::memchr(bytes.data() + from, wanted, bytes.size() - from);
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

bool IsNamePart(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

// Lines that lie whole in what was read, which is nearly all of a busy worker's, take one search and one copy.
void LineAssembler::Feed(BootTime now, std::string_view bytes, std::string* out) {
  if (!pending_.empty() || continued_ || redrawn_) {
    const size_t end = Find(bytes, '\n', 0);
    const size_t rest = end == std::string_view::npos ? bytes.size() : end + 1;
    TakeRest(now, bytes.substr(0, rest), out);
    bytes.remove_prefix(rest);
  }
  if (bytes.empty()) return;
  size_t begin = 0, redraw = Find(bytes, '\r', 0);
  while (begin < bytes.size()) {
    const size_t end = Find(bytes, '\n', begin);
    if (end == std::string_view::npos || end - begin > kMaxLineBytes) break;
    const std::string_view line = bytes.substr(begin, end + 1 - begin);
    if (redraw < end) {
      TakeRest(now, line, out);
      redraw = Find(bytes, '\r', end + 1);
    } else {
      *out += prefix_;
      *out += line;
    }
    begin = end + 1;
  }
  if (begin == bytes.size()) return;
  const size_t end = Find(bytes, '\n', begin);
  const size_t rest = end == std::string_view::npos ? bytes.size() : end + 1;
  TakeRest(now, bytes.substr(begin, rest - begin), out);
  if (rest < bytes.size()) Feed(now, bytes.substr(rest), out);
}

// Any bytes, in any state.
void LineAssembler::TakeRest(BootTime now, std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    // A carriage return that ended the last part is the end of a line if a newline follows: both are one ending.
    if (!pending_.empty() && pending_.back() == '\r') {
      pending_.pop_back();
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        Line(std::exchange(pending_, ""), "\r\n", out);
      } else {
        State(now, out);
      }
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (pending_.empty()) since_ = now;
    const size_t room = kMaxLineBytes - std::min(kMaxLineBytes, pending_.size());
    if (part.size() > room) {
      pending_ += part.substr(0, room);
      bytes.remove_prefix(room);
      ShowUnfinished(out);
      continue;
    }
    pending_ += part;
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (part.data()[part.size()] == '\n' && pending_.ends_with(kCursorUp)) {
      State(now, out);
    } else if (part.data()[part.size()] == '\n') {
      Line(std::exchange(pending_, ""), "\n", out);
    } else {
      pending_ += '\r';  // what it means is decided by the next byte
    }
  }
}

BootTime LineAssembler::due() const {
  BootTime due = absl::InfiniteFuture();
  if (!pending_.empty()) {
    const bool state = redrawn_ || pending_.back() == '\r';
    due = since_ + (state ? kStateAfter : kUnfinishedAfter);
  }
  if (state_waits_) due = std::min(due, limit_->next);
  return due;
}

void LineAssembler::OnTime(BootTime now, std::string* out) {
  if (now < due()) return;
  if (!pending_.empty() && pending_.back() == '\r') {
    pending_.pop_back();
    State(now, out);
  } else if (!pending_.empty() && redrawn_) {
    State(now, out);
  } else if (!pending_.empty() && now >= since_ + kUnfinishedAfter) {
    ShowUnfinished(out);
  }
  if (state_waits_ && now >= limit_->next) ShowState(now, out);
}

void LineAssembler::End(std::string* out) {
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  StripCursorUp(&pending_);
  if (pending_.empty() && state_.empty()) return;
  Line(std::exchange(pending_, ""), "\n", out);
}

void LineAssembler::Break(std::string* out) {
  if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
  if (!pending_.empty()) ShowUnfinished(out);
  continued_ = redrawn_ = state_waits_ = false;
  state_.clear();
}

// The end of a line. The newline of one whose text was all shown already, newline included, adds nothing; that of
// a state that passed leaves the state as the line.
void LineAssembler::Line(std::string_view text, std::string_view ending, std::string* out) {
  const std::string_view shown = text.empty() ? std::string_view(state_) : text;
  if (!shown.empty() || !(continued_ || redrawn_)) {
    *out += prefix_;
    if (continued_) *out += kContinuedMark;
    *out += shown;
    *out += ending;
  }
  continued_ = redrawn_ = state_waits_ = false;
  state_.clear();
}

// pending_ is a state of the line: shown, or kept until it may be.
void LineAssembler::State(BootTime now, std::string* out) {
  redrawn_ = true;
  StripCursorUp(&pending_);
  if (pending_.empty()) return;
  state_ = std::exchange(pending_, "");
  state_waits_ = limit_ != nullptr;
  if (!state_waits_ || now >= limit_->next) ShowState(now, out);
}

void LineAssembler::ShowState(BootTime now, std::string* out) {
  *out += prefix_;
  if (continued_) *out += kContinuedMark;
  *out += state_;
  *out += limit_ ? '\n' : '\r';
  state_waits_ = false;
  if (!limit_) return;
  limit_->next = now + kRedrawEvery;
  state_.clear();
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

}  // namespace muster::host
