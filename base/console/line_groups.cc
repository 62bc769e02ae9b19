#include "base/console/line_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/console/line_assembler.h"
#include "base/core/status_macros.h"
#include "base/text/rank_ranges.h"

namespace muster {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last)";
constexpr char kEscape = '\x01';     // in a key: before itself, and before kLeftOut
constexpr char kLeftOut = '?';       // for what may differ
constexpr size_t kMinHexDigits = 4;  // of an address
constexpr std::string_view kPid = "pid";
constexpr size_t kMaxSeparatorBytes = 2;  // between "pid" and its number

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }
bool IsHex(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// Length of the text's beginning in this form, of which '9' stands for a digit; 0: it has another one.
size_t Matching(std::string_view text, std::string_view form) {
  if (text.size() < form.size()) return 0;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] == '9' ? !IsDigit(text[i]) : text[i] != form[i]) return 0;
  }
  return form.size();
}

size_t DigitsAt(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin());
}

// Length of a time of day at the beginning, with its fraction.
size_t TimeAt(std::string_view text) {
  const size_t clock = Matching(text, "99:99:99");
  if (clock == 0) return 0;
  const std::string_view rest = text.substr(clock);
  const size_t fraction = !rest.empty() && (rest[0] == '.' || rest[0] == ',') ? DigitsAt(rest.substr(1)) : 0;
  return clock + (fraction > 0 ? 1 + fraction : 0);
}

// The same of a date, before a time of day alone: by itself it may be what a line is about.
size_t DateAt(std::string_view text) {
  const size_t date = std::max(Matching(text, "9999-99-99"), Matching(text, "9999/99/99"));
  const std::string_view rest = text.substr(date);
  return date > 0 && (rest.starts_with(' ') || rest.starts_with('T')) && TimeAt(rest.substr(1)) > 0 ? date : 0;
}

size_t AddressAt(std::string_view text) {
  if (!text.starts_with("0x")) return 0;
  const auto end = std::find_if_not(text.begin() + 2, text.end(), IsHex);
  const auto length = static_cast<size_t>(end - text.begin());
  return length >= 2 + kMinHexDigits ? length : 0;
}

// Whether a number that follows is a pid: "pid 12", "PID=12", "(pid: 12)".
bool NamesPid(std::string_view before) {
  const size_t last = before.find_last_not_of(" :=");
  if (last == std::string_view::npos || before.size() - last > kMaxSeparatorBytes + 1) return false;
  before = before.substr(0, last + 1);
  const size_t word = before.size() - std::min(before.size(), kPid.size());
  return absl::EqualsIgnoreCase(AsAbsl(before.substr(word)), AsAbsl(kPid)) &&
         (word == 0 || !IsAlnum(before[word - 1]));
}

// The text without what may differ between ranks.
std::string KeyOf(int rank, std::string_view text) {
  const std::string own = absl::StrCat("[rank", rank, "]");
  constexpr char kMark[] = {kEscape, kLeftOut};
  const std::string_view mark(kMark, sizeof kMark);
  std::string key;
  key.reserve(text.size());
  size_t date_end = std::string_view::npos;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '[' && text.substr(i).starts_with(own)) {
      key += mark;
      i += own.size();
      continue;
    }
    const bool begins = i == 0 || !IsAlnum(text[i - 1]) || (text[i - 1] == 'T' && i == date_end + 1);
    if (!IsDigit(text[i]) || !begins) {
      if (text[i] == kEscape) key += kEscape;
      key += text[i++];
      continue;
    }
    const std::string_view rest = text.substr(i);
    const size_t digits = DigitsAt(rest), date = DateAt(rest);
    size_t left_out = std::max({date, TimeAt(rest), AddressAt(rest)});
    if (left_out == 0 && NamesPid(text.substr(0, i))) left_out = digits;
    if (date > 0) date_end = i + date;
    key.append(left_out > 0 ? mark : rest.substr(0, digits));
    i += left_out > 0 ? left_out : digits;
  }
  return key;
}

// Length of the first piece, whose ending is "\n", "\r\n" or "\r".
size_t FirstPiece(std::string_view pieces) {
  const size_t end = pieces.find_first_of("\n\r");
  if (end == std::string_view::npos) return pieces.size();
  return end + (pieces.substr(end, 2) == "\r\n" ? 2 : 1);
}

}  // namespace

void LineGroups::Take(BootTime now, const LineOrigin& origin, std::string_view pieces,
                      std::vector<ShownLine>* shown) {
  while (!pieces.empty()) {
    const std::string_view piece = pieces.substr(0, FirstPiece(pieces));
    pieces.remove_prefix(piece.size());
    if (piece.back() == '\r') {
      redrawn_.insert(origin.source);
      shown->push_back({origin.source, std::string(piece)});
    } else {
      TakeLine(now, origin, piece, shown);
    }
  }
}

void LineGroups::TakeLine(BootTime now, const LineOrigin& origin, std::string_view line,
                          std::vector<ShownLine>* shown) {
  if (origin.rank == kNoRank) {
    OnTime(absl::InfiniteFuture(), shown);
    shown->push_back({origin.source, std::string(line)});
    return;
  }
  Rank& rank = ranks_[origin.rank];
  const std::string_view text = line.substr(std::min(origin.prefix_bytes, line.size()));
  if (IsShownAtOnce(now, origin, text, &rank)) {
    ShowBefore(rank.next, shown);
    shown->push_back({origin.source, std::string(line)});
    return;
  }
  Join(now, origin.rank, line, text, &rank);
  while (!waiting_.empty() && (waiting_.front().ranks.size() >= all_ranks_ || bytes_ > kMaxWaitingBytes))
    ShowFirst(shown);
}

bool LineGroups::IsShownAtOnce(BootTime now, const LineOrigin& origin, std::string_view text, Rank* rank) {
  if (text.find(kTraceback) != std::string_view::npos) rank->at_once_until = now + kTracebackFor;
  const bool ends_redraw = redrawn_.erase(origin.source) > 0;
  const std::string_view without_newline = text.substr(0, text.size() - std::min<size_t>(text.size(), 1));
  const bool is_part = text.starts_with(kContinuedMark) || without_newline.ends_with(kUnfinishedMark);
  return ends_redraw || is_part || now < rank->at_once_until;
}

// Joins the first group of this line that does not stand before an earlier line of the same rank.
void LineGroups::Join(BootTime now, int writer, std::string_view line, std::string_view text, Rank* rank) {
  std::string key = KeyOf(writer, text);
  std::deque<uint64_t>& numbers = by_key_[key];
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), rank->next);
  if (found != numbers.end()) {
    waiting_[*found - first_].ranks.push_back(writer);
    rank->next = *found + 1;
    return;
  }
  const uint64_t number = first_ + waiting_.size();
  numbers.push_back(number);
  rank->next = number + 1;
  bytes_ += line.size() + kBytesOfAGroup;
  waiting_.push_back({std::move(key), std::string(line), line.size() - text.size(), {writer}, now + kGroupFor});
}

void LineGroups::ShowFirst(std::vector<ShownLine>* shown) {
  Group group = std::move(waiting_.front());
  waiting_.pop_front();
  ++first_;
  bytes_ -= group.line.size() + kBytesOfAGroup;
  const auto numbers = by_key_.find(group.key);
  numbers->second.pop_front();
  if (numbers->second.empty()) by_key_.erase(numbers);
  if (group.ranks.size() > 1)
    group.line.replace(0, group.prefix_bytes,
                       absl::StrCat("[", ShowRanges(RangesOf(std::move(group.ranks))), "] "));
  shown->push_back({kWaitingSource, std::move(group.line)});
}

void LineGroups::ShowBefore(uint64_t number, std::vector<ShownLine>* shown) {
  while (!waiting_.empty() && first_ < number) ShowFirst(shown);
}

void LineGroups::OnTime(BootTime now, std::vector<ShownLine>* shown) {
  while (!waiting_.empty() && now >= due()) ShowFirst(shown);
}

void LineGroups::ShowThoseOf(int rank, std::vector<ShownLine>* shown) {
  const auto found = ranks_.find(rank);
  if (found != ranks_.end()) ShowBefore(found->second.next, shown);
}

BootTime LineGroups::due() const { return waiting_.empty() ? absl::InfiniteFuture() : waiting_.front().until; }

}  // namespace muster
