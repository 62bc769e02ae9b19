#include "agent/host/line_assembler.h"

#include <utility>

namespace muster::host {

void LineAssembler::Feed(BootTime now, std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    // A carriage return that ended the last read is the end of a line if a newline follows: both are one ending.
    if (!pending_.empty() && pending_.back() == '\r') {
      pending_.pop_back();
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        Show("\r\n", out);
      } else {
        Show("\r", out);
      }
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (pending_.empty()) since_ = now;
    const size_t room = kMaxLineBytes - pending_.size();
    if (part.size() > room) {
      pending_ += part.substr(0, room);
      bytes.remove_prefix(room);
      ShowUnfinished(out);
      continue;
    }
    pending_ += part;
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (part.data()[part.size()] == '\n') {
      Show("\n", out);
    } else {
      pending_ += '\r';  // what it means is decided by the next byte
    }
  }
}

void LineAssembler::OnTime(BootTime now, std::string* out) {
  if (now >= due()) ShowUnfinished(out);
}

void LineAssembler::End(std::string* out) {
  if (pending_.empty()) return;
  if (pending_.back() == '\r') pending_.pop_back();
  Show("\n", out);
}

void LineAssembler::Show(std::string_view ending, std::string* out) {
  // The newline of a line whose text was all shown already, mark and newline included.
  const bool nothing_left = continued_ && pending_.empty();
  if (!nothing_left) {
    *out += prefix_;
    if (continued_) *out += kContinuedMark;
    *out += pending_;
    *out += ending;
  }
  pending_.clear();
  continued_ = false;
}

void LineAssembler::ShowUnfinished(std::string* out) {
  if (pending_.back() == '\r') {  // a redraw: whole already
    pending_.pop_back();
    Show("\r", out);
    return;
  }
  *out += prefix_;
  if (continued_) *out += kContinuedMark;
  *out += pending_;
  *out += kUnfinishedMark;
  *out += '\n';
  pending_.clear();
  continued_ = true;
}

std::string ExpandPrefix(std::string_view pattern, int rank, int local_rank, int node_rank) {
  const std::pair<std::string_view, int> fields[] = {
      {"${rank}", rank}, {"${local_rank}", local_rank}, {"${node_rank}", node_rank}};
  std::string expanded;
  while (!pattern.empty()) {
    bool found = false;
    for (const auto& [name, value] : fields) {
      if (pattern.substr(0, name.size()) != name) continue;
      expanded += std::to_string(value);
      pattern.remove_prefix(name.size());
      found = true;
      break;
    }
    if (found) continue;
    expanded += pattern.front();
    pattern.remove_prefix(1);
  }
  return expanded;
}

}  // namespace muster::host
