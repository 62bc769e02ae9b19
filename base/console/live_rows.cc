#include "base/console/live_rows.h"

#include <algorithm>

#include "base/console/line_assembler.h"

namespace muster {
namespace {

constexpr std::string_view kCsi = "\033[";  // starts a sequence, such as a colour, that ends with a byte >= '@'
constexpr std::string_view kPlain = "\033[0m";

// Cuts a row to `columns` characters, since a wrapped row could not be erased. Does not count UTF-8 continuation
// bytes or colours; colours end with the row.
std::string Cut(std::string_view row, int columns) {
  int taken = 0;
  size_t end = 0;
  bool coloured = false;
  while (end < row.size()) {
    if (row.substr(end).starts_with(kCsi)) {
      coloured = true;
      end += kCsi.size();
      while (end < row.size() && row[end] < '@') ++end;
      if (end < row.size()) ++end;
      continue;
    }
    const bool begins = (static_cast<unsigned char>(row[end]) & 0xc0) != 0x80;
    if (begins && ++taken > columns) break;
    ++end;
  }
  return std::string(row.substr(0, end)).append(coloured ? kPlain : "");
}

// Appends complete lines, each without the states that it has overwritten.
void AppendLines(std::string_view lines, std::string* out) {
  if (lines.find('\r') == std::string_view::npos) {
    out->append(lines);
    return;
  }
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    std::string_view text = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    const size_t state = text.rfind('\r');
    out->append(text.substr(state == std::string_view::npos ? 0 : state + 1)).append("\r\n");
  }
}

}  // namespace

void LiveRows::Take(int source, std::string_view pieces, std::string* out) {
  const size_t last_line = pieces.rfind('\n');
  const std::string_view lines = pieces.substr(0, last_line == std::string_view::npos ? 0 : last_line + 1);
  pieces.remove_prefix(lines.size());
  if (!lines.empty()) {
    Erase(out);
    stale_ = rows_.erase(source) > 0 || !rows_.empty();
    AppendLines(lines, out);
  }
  if (pieces.empty()) return;
  pieces.remove_suffix(1);
  const size_t previous = pieces.rfind('\r');
  rows_[source] = pieces.substr(previous == std::string_view::npos ? 0 : previous + 1);
  stale_ = true;
}

void LiveRows::Draw(int columns, int lines, std::string* out) {
  if (!stale_) return;
  Erase(out);
  stale_ = false;
  for (const auto& [source, rows] : rows_) {
    std::string_view rest = rows;
    for (bool more = true; more && drawn_ < std::max(lines - 1, 1); ++drawn_) {
      const size_t end = rest.find(kRowBreak);
      more = end != std::string_view::npos;
      if (drawn_ > 0) *out += "\r\n";
      *out += Cut(rest.substr(0, end), std::max(columns - 1, 1));
      rest.remove_prefix(more ? end + 1 : rest.size());
    }
  }
  if (drawn_ > 0) *out += '\r';
}

// Erases the rows and moves the cursor to where the first one was.
void LiveRows::Erase(std::string* out) {
  if (drawn_ == 0) return;
  if (drawn_ > 1) *out += "\033[" + std::to_string(drawn_ - 1) + "A";
  *out += "\r\033[J";
  drawn_ = 0;
}

}  // namespace muster
