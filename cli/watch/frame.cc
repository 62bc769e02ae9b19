#include "cli/watch/frame.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"

namespace muster::cli {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kHome[] = "\x1b[H", kToLineEnd[] = "\x1b[K", kToEnd[] = "\x1b[J", kPlainAgain[] = "\x1b[0m";

const char* SequenceOf(Style style, bool colour) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kStrong:
      return "\x1b[1m";
    case Style::kGood:
      return colour ? "\x1b[32m" : "";
    case Style::kOdd:
      return colour ? "\x1b[33m" : "";
    case Style::kBad:
      return colour ? "\x1b[1;31m" : "";
    case Style::kFaint:
      return colour ? "\x1b[2m" : "";
    case Style::kChosen:
      return "\x1b[7m";
  }
  return "";
}

// The part of the text that fits, as characters: every byte that does not continue one begins one.
std::string_view Fitting(std::string_view text, size_t most) {
  size_t at = 0;
  for (size_t count = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
    if (begins && count++ == most) break;
  }
  return text.substr(0, at);
}

size_t CharactersIn(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// A row that is cut ends with ">", so that nobody takes a part of a number for all of it.
void AppendRow(const Row& row, size_t columns, bool colour, std::string* out) {
  size_t all = 0;
  for (const Span& span : row) all += CharactersIn(span.text);
  const bool is_cut = all > columns && columns > 0;
  const size_t room = is_cut ? columns - 1 : columns;
  size_t used = 0;
  for (const Span& span : row) {
    const std::string_view text = Fitting(span.text, room - used);
    used += CharactersIn(text);
    const char* const sequence = SequenceOf(span.style, colour);
    absl::StrAppend(out, sequence, AsAbsl(text), *sequence == 0 ? "" : kPlainAgain);
  }
  if (is_cut) *out += '>';
}

// "[A", "[5~": what follows an escape, as far as it belongs to one sequence.
std::string_view SequenceIn(std::string_view bytes) {
  if (bytes.empty() || (bytes[0] != '[' && bytes[0] != 'O')) return "";
  size_t end = 1;
  while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
  return bytes.substr(0, std::min(end + 1, bytes.size()));
}

Key KeyOf(std::string_view sequence) {
  constexpr std::pair<std::string_view, Key> kKeys[] = {
      {"[A", Key::kUp},      {"[B", Key::kDown},     {"[C", Key::kRight}, {"[D", Key::kLeft},
      {"OA", Key::kUp},      {"OB", Key::kDown},     {"OC", Key::kRight}, {"OD", Key::kLeft},
      {"[5~", Key::kPageUp}, {"[6~", Key::kPageDown}};
  for (const auto& [known, key] : kKeys) {
    if (known == sequence) return key;
  }
  return Key::kOther;
}

KeyPress PressOf(char byte) {
  constexpr char kInterrupt = 3, kEndOfInput = 4, kDelete = 127;
  if (byte == kInterrupt || byte == kEndOfInput) return {Key::kQuit};
  if (byte == '\r' || byte == '\n') return {Key::kEnter};
  if (byte == '\b' || byte == kDelete) return {Key::kBackspace};
  return byte >= ' ' && byte < kDelete ? KeyPress{Key::kText, byte} : KeyPress{};
}

}  // namespace

std::string Frame(const std::vector<Row>& rows, Size size, bool colour) {
  std::string out = kHome;
  const size_t shown = std::min(rows.size(), static_cast<size_t>(std::max(0, size.lines)));
  for (size_t i = 0; i < shown; ++i) {
    AppendRow(rows[i], static_cast<size_t>(std::max(0, size.columns)), colour, &out);
    absl::StrAppend(&out, kToLineEnd, i + 1 < shown ? "\r\n" : "");
  }
  return absl::StrCat(out, kToEnd);
}

std::vector<KeyPress> KeysIn(std::string_view bytes) {
  std::vector<KeyPress> keys;
  while (!bytes.empty()) {
    const char first = bytes[0];
    bytes.remove_prefix(1);
    if (first != kEscape) {
      keys.push_back(PressOf(first));
      continue;
    }
    const std::string_view sequence = SequenceIn(bytes);
    keys.push_back({sequence.empty() ? Key::kEscape : KeyOf(sequence)});
    bytes.remove_prefix(sequence.size());
  }
  return keys;
}

}  // namespace muster::cli
